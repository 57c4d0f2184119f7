def write(s,p): pass
