def measure(*a): return None
