def install(a,b): pass
