"""What measures a run or looks ahead: modifiers, sizes, forecast, ``ops``, ``init --from-root``."""
