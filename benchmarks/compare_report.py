"""Whether a report and `p2.awk` tell the same of a log: `compare_report.py REPORT.json P2.txt`.

Prints a line about counts and one about owners. mawk's pass mends no torn lines, so its counts of
what TIMELINE lines tell may be lower by those.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

SAME = {  # the report's column → mawk's key
    "gpu_total_ms": "gpu_total_ms",
    "barrier_wait_ms": "barrier_wait_ms",
    "prep_msm_ms": "prep_msm_ms",
    "b_g2_msm_ms": "b_g2_msm_ms",
    "lock_held_ms": "mutex_held_ms",
    "lock_wait_ms": "mutex_wait_ms",
    "synth_ms": "synth",
    "gpu_ms": "gpu",
}


def main() -> int:
    report = json.loads(Path(sys.argv[1]).read_text())
    rows = [row for run in report["runs"] for row in run["partitions"]]
    theirs = {}
    for line in Path(sys.argv[2]).read_text().splitlines():
        words = line.split()
        if len(words) == 3:
            theirs[words[0]] = (int(words[1]), int(words[2]))
    told = []
    for ours, key in SAME.items():
        values = [row[ours] for row in rows if row.get(ours) is not None]
        count, total = theirs.get(key, (0, 0))
        # The daemon's own field names clash in mawk's sums: FIN_TIMING has a lock_wait_ms, too.
        told.append(f"{ours} {len(values) - count:+d} of {count}, sum {sum(values) - total:+d} ms")
    print("against mawk's sums: " + "; ".join(told))
    owners = Counter(row["attribution"] for row in rows)
    states = Counter(row["state"] for row in rows)
    print(
        f"{len(rows)} partitions ("
        + ", ".join(f"{count} {state}" for state, count in states.most_common())
        + "), owners "
        + ", ".join(f"{owner} {count}" for owner, count in owners.most_common())
        + f"; torn lines {report['source']['torn']} mended, {report['source']['unparsed']} not read"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
