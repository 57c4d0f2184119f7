#include "sentry/task/exec.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "platform/base/log.h"
#include "platform/channel/shared_cell.h"
#include "platform/host/features.h"
#include "platform/platform.h"
#include "sentry/fs/proc/mapped_names.h"
#include "sentry/ipc/futex.h"
#include "sentry/loader/elf.h"
#include "sentry/loader/stack_layout.h"
#include "sentry/task/clone.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"
#include "sentry/time/group_timers.h"
#include "sentry/vfs/fd_table.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/ops.h"

namespace uks {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int kMaxScripts = 5;             // nested #! lines, as in exec_binprm()
constexpr size_t kHeaderSize = 256;        // BINPRM_BUF_SIZE
constexpr uint64_t kMaxStack = 100 << 20;  // the gap above the mmap area holds at least 128 MiB
constexpr uint64_t kMinStack = 128 << 10;

uint64_t page_up(uint64_t n) { return (n + kPage - 1) & ~(kPage - 1); }

uint64_t random_bits(unsigned bits) {
  uint64_t value = 0;
  (void)!getrandom(&value, sizeof value, 0);
  return value & ((uint64_t{1} << bits) - 1);
}

// A file that is part of the new image, with the descriptor that the stub maps it from.
struct ImageFile {
  Ref<File> file;
  ElfImage elf;
  UniqueFd host;
  uint64_t host_offset = 0;
  Ref<RefCounted> pages;  // MappableFd::pages
  uint64_t base = 0;      // load bias
};

struct Program {
  ImageFile main;
  std::optional<ImageFile> interpreter;
  std::string path;  // of the file that runs
  std::string name;  // as execve was given it: a script's, where one is run (bprm->filename)
  std::vector<std::string> argv;
  Ref<File> executable;
};

Result<ImageFile> load_image(Task& task, Ref<File> file) {
  ImageFile image;
  image.elf = TRY(read_elf(task, *file));
  const MappableFd mappable = TRY(file->mappable_fd(task, PROT_READ | PROT_EXEC, false));
  image.host.reset(fcntl(mappable.fd, F_DUPFD_CLOEXEC, 10));
  if (!image.host) return HostErr();
  note_mapped_file(task, *file, image.host.get());
  image.host_offset = mappable.host_offset;
  image.pages = mappable.pages;
  image.file = std::move(file);
  return image;
}

struct ScriptLine {
  std::string interpreter, argument;
};

// "#!interpreter [one argument]", load_script() in the kernel. Nothing: no script.
Result<std::optional<ScriptLine>> read_script_line(Task& task, File& file) {
  char buffer[kHeaderSize];
  BufferSink sink{std::span<char>(buffer)};
  const size_t n = TRY(file.pread(task, sink, 0));
  if (n < 2 || buffer[0] != '#' || buffer[1] != '!') return std::optional<ScriptLine>{};
  std::string line(buffer + 2, n - 2);
  const size_t end = line.find('\n');
  // Without an end of line the interpreter's name may be cut off: only a blank behind it proves it
  // whole.
  if (end == std::string::npos && n == sizeof buffer) {
    const size_t name = line.find_first_not_of(" \t");
    if (name == std::string::npos || line.find_first_of(" \t", name) == std::string::npos)
      return Err(ENOEXEC);
  }
  line.resize(std::min(end, line.size()));
  line.resize(std::min(line.find('\0'), line.size()));
  const size_t last = line.find_last_not_of(" \t");
  line.resize(last == std::string::npos ? 0 : last + 1);
  const size_t start = line.find_first_not_of(" \t");
  if (start == std::string::npos) return Err(ENOEXEC);
  ScriptLine script;
  const size_t name_end = line.find_first_of(" \t", start);
  script.interpreter =
      line.substr(start, name_end == std::string::npos ? std::string::npos : name_end - start);
  if (name_end != std::string::npos)
    script.argument = line.substr(line.find_first_not_of(" \t", name_end));
  return script;
}

// Finds out what will run: through scripts to an ELF file and its interpreter.
Result<Program> find_program(Task& task, ExecRequest& request) {
  Program program;
  program.argv = std::move(request.argv);
  program.path = request.path;
  if (request.dirfd != AT_FDCWD && (program.path.empty() || program.path[0] != '/')) {
    const std::string fd_path = "/dev/fd/" + std::to_string(request.dirfd);
    program.path = program.path.empty() ? fd_path : fd_path + "/" + program.path;
  }
  program.name = program.path;
  Ref<File> file = TRY(open_exec(task, request.dirfd, request.path, request.flags));
  for (int depth = 0;; depth++) {
    auto script = TRY(read_script_line(task, *file));
    if (!script) break;
    if (depth >= kMaxScripts) return Err(ELOOP);
    std::vector<std::string> argv{script->interpreter};
    if (!script->argument.empty()) argv.push_back(script->argument);
    argv.push_back(program.path);
    if (!program.argv.empty())
      argv.insert(argv.end(), program.argv.begin() + 1, program.argv.end());
    program.argv = std::move(argv);
    program.path = script->interpreter;
    file = TRY(open_exec(task, AT_FDCWD, script->interpreter, 0));
  }
  program.executable = file;
  program.main = TRY(load_image(task, std::move(file)));
  if (!program.main.elf.interpreter.empty()) {
    Ref<File> interpreter = TRY(open_exec(task, AT_FDCWD, program.main.elf.interpreter, 0));
    program.interpreter = TRY(load_image(task, std::move(interpreter)));
    if (!program.interpreter->elf.position_independent) return Err(ENOEXEC);
  }
  return program;
}

Result<void> check_argument_size(const ThreadGroup& group, const ExecRequest& request) {
  constexpr uint64_t kMaxString = 131072;
  uint64_t total = 0;
  for (const auto* list : {&request.argv, &request.envp}) {
    for (const std::string& s : *list) {
      if (s.size() >= kMaxString) return Err(E2BIG);
      total += s.size() + 1 + sizeof(uint64_t);
    }
  }
  if (total > argument_limit(group)) return Err(E2BIG);
  return {};
}

// ---- The order list

void add_image_orders(std::vector<uks_order>& orders, const ImageFile& image) {
  for (const ElfSegment& s : image.elf.segments) {
    const uint64_t at = image.base + s.address;
    const uint64_t file_pages = page_up(s.file_size);
    if (s.file_size) {
      uks_order map{};
      map.op = UKS_ORDER_MMAP;
      map.addr = at;
      map.length = file_pages;
      map.prot = static_cast<uint32_t>(s.protection);
      map.flags = MAP_PRIVATE | MAP_FIXED;
      map.offset = image.host_offset + s.file_offset;
      orders.push_back(map);
    }
    if (s.memory_size > s.file_size && s.file_size % kPage && (s.protection & PROT_WRITE)) {
      uks_order zero{};
      zero.op = UKS_ORDER_ZERO;
      zero.addr = at + s.file_size;
      // To the end of the page, not of the segment (padzero() in fs/binfmt_elf.c): the dynamic
      // linker's first allocations lie behind its bss, and it takes that memory to be zero.
      zero.length = file_pages - s.file_size;
      orders.push_back(zero);
    }
    if (page_up(s.memory_size) > file_pages) {
      uks_order bss{};
      bss.op = UKS_ORDER_MMAP;
      bss.addr = at + file_pages;
      bss.length = page_up(s.memory_size) - file_pages;
      bss.prot = static_cast<uint32_t>(s.protection);
      bss.flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS;
      orders.push_back(bss);
    }
  }
}

// What a stub must do to become the new image: in as few rounds as descriptors, orders and data
// allow.
class ExecContinuation final : public StubContinuation {
 public:
  struct Piece {  // stack bytes
    uint64_t addr;
    std::string bytes;
  };
  std::vector<std::pair<UniqueFd, std::vector<uks_order>>> rounds;
  std::vector<Piece> pieces;
  uint64_t ip = 0, sp = 0;

  void resume(Task& task, int64_t result) override {
    if (result < 0 && result > -4096) {
      // Past the point of no return, as Linux: the process dies.
      task.kernel().exit_group(task.group(), SIGKILL);
      return;
    }
    GuestThread& thread = *task.thread;
    thread.clear_data();
    if (!rounds.empty()) {
      auto round = std::move(rounds.front());
      rounds.erase(rounds.begin());
      size_t i = 0;
      while (i < round.second.size() && thread.add_order(round.second[i])) i++;
      round.second.erase(round.second.begin(),
                         round.second.begin() + static_cast<std::ptrdiff_t>(i));
      if (!round.second.empty()) {
        // More orders for the same descriptor, which stays at its number.
        rounds.insert(rounds.begin(), {UniqueFd(), std::move(round.second)});
      }
      if (rounds.empty() && fill_pieces(thread)) return enter(task, std::move(round.first));
      return again(task, std::move(round.first));
    }
    if (fill_pieces(thread)) return enter(task, {});
    again(task, {});
  }

 private:
  // True: all that is left fits this round.
  bool fill_pieces(GuestThread& thread) {
    while (!pieces.empty() && thread.order_copy_out(pieces.back().addr, pieces.back().bytes.data(),
                                                    pieces.back().bytes.size())) {
      pieces.pop_back();
    }
    return pieces.empty();
  }
  void again(Task& task, UniqueFd fd) {
    auto next = std::make_unique<ExecContinuation>();
    next->rounds = std::move(rounds);
    next->pieces = std::move(pieces);
    next->ip = ip;
    next->sp = sp;
    task.kernel().dispatcher->order_and_continue(task, std::move(next), std::move(fd));
  }
  void enter(Task& task, UniqueFd fd) const {
    store(task.thread->slot()->enter_ip, ip);
    store(task.thread->slot()->enter_sp, sp);
    Reply reply;
    reply.action = UKS_ACTION_ENTER;
    reply.donated = std::move(fd);
    task.kernel().platform->reply(*task.thread, std::move(reply));
  }
};

void place(Program& program, const StubLayout& layout) {
  ImageFile& main = program.main;
  if (main.elf.position_independent) {
    // ELF_ET_DYN_BASE is two thirds of the address space; 28 bits of pages as arch_mmap_rnd().
    main.base = 0x555555554000 + random_bits(28) * kPage - main.elf.low;
  }
  if (program.interpreter) {
    ImageFile& interpreter = *program.interpreter;
    const uint64_t size = interpreter.elf.high - interpreter.elf.low;
    interpreter.base =
        layout.mmap_top - 0x10000 - page_up(size) - random_bits(16) * kPage - interpreter.elf.low;
  }
}

std::vector<std::pair<uint64_t, uint64_t>> make_auxv(const Task& task, const Program& program,
                                                     uint64_t vdso) {
  const ElfImage& elf = program.main.elf;
  const Credentials& creds = task.creds();
  std::vector<std::pair<uint64_t, uint64_t>> auxv;
  if (vdso) auxv.emplace_back(AT_SYSINFO_EHDR, vdso);
  auxv.emplace_back(AT_HWCAP, getauxval(AT_HWCAP));
  auxv.emplace_back(AT_PAGESZ, kPage);
  auxv.emplace_back(AT_CLKTCK, 100);
  auxv.emplace_back(AT_PHDR, program.main.base + elf.headers);
  auxv.emplace_back(AT_PHENT, elf.header_size);
  auxv.emplace_back(AT_PHNUM, elf.header_count);
  auxv.emplace_back(AT_BASE, program.interpreter ? program.interpreter->base : 0);
  auxv.emplace_back(AT_FLAGS, 0);
  auxv.emplace_back(AT_ENTRY, program.main.base + elf.entry);
  auxv.emplace_back(AT_UID, creds.ruid);
  auxv.emplace_back(AT_EUID, creds.euid);
  auxv.emplace_back(AT_GID, creds.rgid);
  auxv.emplace_back(AT_EGID, creds.egid);
  auxv.emplace_back(AT_SECURE, 0);
  auxv.emplace_back(AT_HWCAP2, usable_hwcap2());
#ifdef AT_MINSIGSTKSZ
  if (const uint64_t size = getauxval(AT_MINSIGSTKSZ)) auxv.emplace_back(AT_MINSIGSTKSZ, size);
#endif
  return auxv;
}

// The other threads of the process end; the caller becomes its leader (de_thread()).
void become_single(Task& task, Kernel& kernel) {
  ThreadGroup& group = task.group();
  const std::vector<Task*> threads = group.threads;
  std::vector<LastWords> words;
  for (Task* other : threads) {
    if (task.mm && (task.mm->users > 1 || task.mm->has_shared_memory))
      words.push_back(take_last_words(*other));
    if (other != &task) kernel.end_sibling(*other);
  }
  kernel.make_leader(task);
  leave_memory(kernel, group, task.mm, words);
}

void reset_for_exec(Task& task, Kernel& kernel, const Program& program,
                    const std::vector<std::string>& envp) {
  ThreadGroup& group = task.group();
  // Signals: handlers go, what is ignored stays (execve(2)).
  auto actions = make_ref<SignalActions>();
  for (int sig = 1; sig <= kSignalCount; sig++) {
    if ((*group.actions)[sig].handler == 1) (*actions)[sig].handler = 1;
  }
  group.actions = std::move(actions);
  task.alt_stack = {};
  task.saved_mask.reset();
  task.clear_child_tid = {};
  task.robust_list = {};
  task.delivering_signal = 0;
  group.exit_signal = SIGCHLD;
  group.did_exec = true;
  group.dumpable = true;
  if (task.fd_table->ref_count() > 1) task.fd_table = task.fd_table->clone();
  task.fd_table->close_on_exec(task);
  if (task.fs_context->ref_count() > 1) task.fs_context = task.fs_context->clone();
  const size_t slash = program.name.rfind('/');
  task.comm = program.name.substr(slash == std::string::npos ? 0 : slash + 1, 15);
  group.set_executable(program.executable);
  group.executable_path = program.path;
  group.command_line.clear();
  for (const std::string& s : program.argv) group.command_line += s + '\0';
  group.environment.clear();
  for (const std::string& s : envp) group.environment += s + '\0';
  // Set-id bits of files are never honoured; a root process regains its bounding set.
  Credentials creds = task.copy_creds();
  creds.cap_ambient &= creds.cap_permitted & creds.cap_inheritable;
  creds.cap_permitted = creds.euid == 0 || creds.ruid == 0 ? creds.cap_bounding : creds.cap_ambient;
  creds.cap_effective = creds.euid == 0 ? creds.cap_permitted : creds.cap_ambient;
  creds.suid = creds.fsuid = creds.euid;
  creds.sgid = creds.fsgid = creds.egid;
  task.set_creds(std::move(creds));
  (void)kernel;
}

}  // namespace

uint64_t argument_limit(const ThreadGroup& group) {
  return std::clamp<uint64_t>(group.limits[RLIMIT_STACK].rlim_cur / 4, 131072, (8 << 20) / 4 * 3);
}

void Kernel::end_sibling(Task& task) {
  const Ref<Task> keep(&task);
  const Ref<GuestThread> thread = task.thread;
  detach_task(task);
  task.thread = nullptr;
  if (thread && !thread->gone) platform->end_thread(thread.get());
}

void Kernel::make_leader(Task& task) {
  if (task.tid_ == task.group().pid) return;
  tasks_.erase(task.tid_);
  task.tid_ = task.group().pid;
  tasks_[task.tid_] = &task;
}

Result<int64_t> exec_task(Task& task, ExecRequest request) {
  Kernel& kernel = task.kernel();
  TRY(check_process_limit_at_exec(task));
  TRY(check_argument_size(task.group(), request));
  std::vector<std::string> envp = std::move(request.envp);
  Program program = TRY(find_program(task, request));
  if (program.argv.empty()) program.argv.emplace_back();  // Linux 5.18: never an empty argv
  if (task.dead) return Err(EINTR);

  const Ref<GuestThread> stub(kernel.platform->take_stub());
  if (!stub) return Err(task.block({{&kernel.stub_waiters, EPOLLIN}}, {}, kRestartNoIntr));
  AddressSpace& mm = stub->mm();

  // The new image's layout and stack.
  const StubLayout& layout = kernel.platform->layout();
  place(program, layout);
  ThreadGroup& group = task.group();
  const uint64_t stack_size =
      std::clamp<uint64_t>(page_up(group.limits[RLIMIT_STACK].rlim_cur > kMaxStack
                                       ? kMaxStack
                                       : group.limits[RLIMIT_STACK].rlim_cur),
                           kMinStack, kMaxStack);
  const uint64_t stack_top = layout.stack_top - random_bits(10) * kPage;

  // ---- The point of no return.
  become_single(task, kernel);
  if (task.dead || stub->gone) {
    if (!stub->gone) kernel.platform->end_process(mm);
    kernel.exit_group(group, SIGKILL);
    return Err(kNoReply);
  }
  const Ref<AddressSpace> old_mm = task.mm;
  const Ref<GuestThread> old_thread = task.thread;
  if (old_mm) kernel.settle_cpu_times(group);
  if (group.timers) GroupTimers::of(group).remove_posix_timers();
  reset_for_exec(task, kernel, program, envp);
  StackContents contents;
  contents.argv = program.argv;
  contents.envp = std::move(envp);
  contents.exec_path = program.name;
  contents.auxv = make_auxv(task, program, layout.vdso);
  (void)!getrandom(contents.random, sizeof contents.random, 0);
  StackImage stack = build_stack(contents, stack_top);
  group.auxv = stack.auxv;

  if (old_thread) old_thread->task = nullptr;
  task.thread = stub;
  task.mm = Ref<AddressSpace>(&mm);
  stub->task = &task;
  mm.users = 1;
  if (old_mm && !old_mm->gone) {
    if (old_mm->users > 0) old_mm->users--;
    if (old_mm->users == 0) {
      kernel.platform->end_process(*old_mm);
    } else if (old_thread && !old_thread->gone) {
      kernel.platform->end_thread(old_thread.get());
    }
  }
  release_vfork_parent(kernel, task);

  const ElfImage& elf = program.main.elf;
  const uint64_t brk = page_up(program.main.base + elf.high) + random_bits(13) * kPage;
  mm.brk_start = brk;
  mm.stack_top = stack_top;
  mm.stack_size = stack_size;
  mm.code_start = program.main.base + elf.code_start;
  mm.code_end = program.main.base + elf.code_end;
  mm.arg_start = stack.arg_start;
  mm.arg_end = stack.arg_end;
  mm.env_start = stack.env_start;
  mm.env_end = stack.env_end;

  LOG_DEBUG("task {}: exec {} at {:#x}, interpreter at {:#x}, stack {:#x}", task.tid(),
            program.path, program.main.base, program.interpreter ? program.interpreter->base : 0,
            stack.start);
  if (program.main.pages) mm.hold(program.main.pages, 0);
  if (program.interpreter && program.interpreter->pages) mm.hold(program.interpreter->pages, 0);
  ExecContinuation plan;
  std::vector<uks_order> orders;
  add_image_orders(orders, program.main);
  uks_order set_brk{};
  set_brk.op = UKS_ORDER_SET_BRK;
  set_brk.addr = brk;
  set_brk.length = uint64_t{1} << 40;
  orders.push_back(set_brk);
  if (const uint64_t limit = group.memory_limit(); limit != RLIM64_INFINITY) {
    uks_order limited{};
    limited.op = UKS_ORDER_SET_LIMITED;
    limited.addr = 1;
    limited.length = limit;
    orders.push_back(limited);
  }
  uks_order map_stack{};
  map_stack.op = UKS_ORDER_MMAP;
  map_stack.addr = stack_top - stack_size;
  map_stack.length = stack_size;
  map_stack.prot = PROT_READ | PROT_WRITE | (elf.executable_stack ? PROT_EXEC : 0);
  map_stack.flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | MAP_STACK;
  orders.push_back(map_stack);
  plan.rounds.emplace_back(std::move(program.main.host), std::move(orders));
  plan.ip = program.main.base + elf.entry;
  if (program.interpreter) {
    std::vector<uks_order> more;
    add_image_orders(more, *program.interpreter);
    plan.ip = program.interpreter->base + program.interpreter->elf.entry;
    plan.rounds.emplace_back(std::move(program.interpreter->host), std::move(more));
  }
  plan.sp = stack.start;
  constexpr size_t kPiece = 24 * 1024;
  for (size_t at = 0; at < stack.bytes.size(); at += kPiece) {
    plan.pieces.push_back({stack.start + at, stack.bytes.substr(at, kPiece)});
  }
  plan.resume(task, 0);
  return Err(kNoReply);
}

}  // namespace uks
