"""The peers, in the order of the report."""
from .engines import Docker, Podman
from .oci import Crun, GvisorKvm, GvisorPtrace, GvisorSystrap, Runc
from .simple import Bwrap, Firejail, Native, Proot, Srt, Uks, UksPtrace

ALL = (Native, Uks, UksPtrace, GvisorSystrap, GvisorPtrace, GvisorKvm, Bwrap, Srt, Firejail, Runc, Crun, Podman, Docker,
       Proot)
BY_NAME = {peer.name: peer for peer in ALL}
