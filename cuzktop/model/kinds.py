"""The anonymous lines of a prove call, numbered as the daemon's templates are."""

C1 = 1  # split_vectors_ms, setup_to_split_ms: the call has begun, its CPU thread starts
C2 = 2  # prep_msm_ms: the kernels' barrier opens
C3 = 3  # b_g2_msm_ms, num_circuits: the CPU thread is done
C4 = 4  # pre_lock_cpu_ms, mutex_wait_ms: the lock is taken (S41 and newer)
C6 = 6  # ntt_msm_h_ms
C7 = 7  # barrier_wait_ms (S41 and newer)
C8 = 8  # batch_add_ms
C9 = 9  # tail_msm_ms, gpu_total_ms: the GPU thread is done
C10 = 10  # mutex_held_ms, total_start_fn_ms: the lock is given back (S41 and newer)
C11 = 11  # epilogue_ms, pre_destructor_ms: the call returns (until S23)

KINDS = (C1, C2, C3, C4, C6, C7, C8, C9, C10, C11)
CHAIN = (C4, C6, C7, C8, C9, C10)  # from taking the lock to giving it back, S41 and newer
BLOCK = (C6, C8, C9)  # what the GPU thread prints before S41
CPU = (C1, C2, C3)
TOGETHER = {*CPU, *BLOCK, C11}  # what a call prints until S18
