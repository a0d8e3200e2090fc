"""Machine code of compiled programs: guards and drivers without Python between their steps."""
