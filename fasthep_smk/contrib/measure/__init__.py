"""What measures a run or looks ahead: modifiers, ``forecast``, ``ops``, ``init --from-root``."""
