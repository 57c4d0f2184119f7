#include "sentry/loader/elf.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "sentry/usermem/io.h"

namespace uks {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kTaskSize = 0x7ffffffff000;
constexpr size_t kMaxHeaders =
    64;  // Linux takes up to 64 KiB of them; real files have about a dozen
uint64_t page_up(uint64_t n) { return (n + kPage - 1) & ~(kPage - 1); }

Result<void> read_exactly(Task& task, File& file, void* to, size_t n, uint64_t offset) {
  if (offset > static_cast<uint64_t>(INT64_MAX) - n) return Err(ENOEXEC);
  size_t done = 0;
  while (done < n) {
    BufferSink sink(std::span<char>(static_cast<char*>(to) + done, n - done));
    const size_t got = TRY(file.pread(task, sink, static_cast<int64_t>(offset + done)));
    if (got == 0) return Err(ENOEXEC);
    done += got;
  }
  return {};
}

Result<void> add_segment(const Elf64_Phdr& header, ElfImage& image) {
  if (header.p_memsz == 0) return {};
  if (header.p_filesz > header.p_memsz || header.p_memsz > kTaskSize ||
      header.p_vaddr > kTaskSize - header.p_memsz) {
    return Err(EINVAL);
  }
  if (header.p_vaddr % kPage != header.p_offset % kPage) return Err(EINVAL);
  if (header.p_offset > static_cast<uint64_t>(INT64_MAX) - header.p_filesz) return Err(EINVAL);
  ElfSegment segment{};
  const uint64_t slack = header.p_vaddr % kPage;
  segment.address = header.p_vaddr - slack;
  segment.file_offset = header.p_offset - slack;
  segment.file_size = header.p_filesz ? header.p_filesz + slack : 0;
  segment.memory_size = header.p_memsz + slack;
  if (header.p_flags & PF_R) segment.protection |= PROT_READ;
  if (header.p_flags & PF_W) segment.protection |= PROT_WRITE;
  if (header.p_flags & PF_X) segment.protection |= PROT_EXEC;
  const uint64_t end = page_up(segment.address + segment.memory_size);
  if (!image.segments.empty() && segment.address < image.segments.back().address)
    return Err(EINVAL);
  if (image.segments.empty()) image.low = segment.address;
  image.high = std::max(image.high, end);
  if ((header.p_flags & PF_X) && image.code_end == 0) {
    image.code_start = header.p_vaddr;
    image.code_end = header.p_vaddr + header.p_filesz;
  }
  image.segments.push_back(segment);
  return {};
}

}  // namespace

Result<ElfImage> read_elf(Task& task, File& file) {
  Elf64_Ehdr header;
  TRY(read_exactly(task, file, &header, sizeof header, 0));
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64) {
    return Err(ENOEXEC);
  }
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return Err(ENOEXEC);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > kMaxHeaders) {
    return Err(ENOEXEC);
  }
  std::vector<Elf64_Phdr> headers(header.e_phnum);
  TRY(read_exactly(task, file, headers.data(), headers.size() * sizeof(Elf64_Phdr),
                   header.e_phoff));

  ElfImage image;
  image.position_independent = header.e_type == ET_DYN;
  image.entry = header.e_entry;
  image.header_count = header.e_phnum;
  image.header_size = header.e_phentsize;
  for (const Elf64_Phdr& ph : headers) {
    switch (ph.p_type) {
      case PT_LOAD:
        TRY(add_segment(ph, image));
        if (header.e_phoff >= ph.p_offset && header.e_phoff - ph.p_offset < ph.p_filesz) {
          image.headers = ph.p_vaddr + (header.e_phoff - ph.p_offset);
        }
        break;
      case PT_INTERP: {
        if (ph.p_filesz < 2 || ph.p_filesz > 4096) return Err(ENOEXEC);
        image.interpreter.resize(ph.p_filesz);
        TRY(read_exactly(task, file, image.interpreter.data(), ph.p_filesz, ph.p_offset));
        if (image.interpreter.back() != '\0') return Err(ENOEXEC);
        image.interpreter.resize(strlen(image.interpreter.c_str()));
        break;
      }
      case PT_GNU_STACK:
        image.executable_stack = ph.p_flags & PF_X;
        break;
      default:
        break;
    }
  }
  if (image.segments.empty()) return Err(ENOEXEC);
  return image;
}

}  // namespace uks
