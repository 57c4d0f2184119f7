"""The workloads, in the order of the report."""
from . import agent, compile, databases, files, footprint, git, micro, packages, runtimes, search, start

ALL = (start.WORKLOADS + micro.WORKLOADS + files.WORKLOADS + git.WORKLOADS + search.WORKLOADS + runtimes.WORKLOADS +
       packages.WORKLOADS + compile.WORKLOADS + databases.WORKLOADS + agent.WORKLOADS + footprint.WORKLOADS)
