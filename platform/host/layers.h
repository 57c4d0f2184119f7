// Further layers of confinement for the sentry and its stubs, taken where the host grants them.
// None is needed: the filters are the boundary.
#pragma once

namespace uks {

struct HostLayers {
  bool ipc_and_uts_namespaces = false;
  bool user_namespace = false;  // what an ordinary user needs for the two
  int landlock_abi = 0;         // 0: no Landlock
};

// Own IPC and UTS namespaces: with CAP_SYS_ADMIN as it is, otherwise inside a user namespace that
// maps only the caller. To be called before the identity is given up, while single-threaded. An own
// network namespace is not taken: making one costs 2–8 ms a start, and neither the sentry nor a
// stub has a system call that could use a network.
void enter_namespaces(HostLayers& layers);

// A Landlock domain without any rule: no file, no TCP port, no signal or abstract socket outside
// it. To be called before the zygotes are made (a sibling domain would put the stubs out of reach,
// PITFALLS 18), with no_new_privs set, when nothing is to be opened any more.
void enter_landlock(HostLayers& layers);

}  // namespace uks
