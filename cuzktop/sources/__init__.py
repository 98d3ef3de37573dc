"""Where bytes and readings come from; each may fail without stopping the rest."""
