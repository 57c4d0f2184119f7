// Texts of /proc that are made from others: processors, memory, mounts, masks.
#include <gtest/gtest.h>

#include "sentry/fs/proc/proc.h"
#include "sentry/fs/proc/proc_fs.h"
#include "tests/unit/ipc/fixture.h"

namespace uks {
namespace {

TEST(ProcTexts, CpuinfoIsCutAndRenumbered) {
  const std::string host =
      "processor\t: 4\nflags\t\t: fpu\n\nprocessor\t: 5\nflags\t\t: fpu\n\nprocessor\t: "
      "6\nflags\t\t: fpu\n\n";
  EXPECT_EQ(limit_cpuinfo(host, 2),
            "processor\t: 0\nflags\t\t: fpu\n\nprocessor\t: 1\nflags\t\t: fpu\n\n");
  EXPECT_EQ(limit_cpuinfo("", 2), "");
}

TEST(ProcTexts, MeminfoKeepsTotalsAndRefreshesWhatIsFree) {
  const std::string host =
      "MemTotal:         100000 kB\nMemFree:           50000 kB\nMemAvailable:      80000 "
      "kB\nSwapFree:              0 kB\n";
  const std::string now = refresh_meminfo(
      host, {.free_kib = 10000, .buffers_kib = 1, .shared_kib = 2, .swap_free_kib = 7});
  EXPECT_EQ(now,
            "MemTotal:         100000 kB\nMemFree:           10000 kB\nMemAvailable:      40000 "
            "kB\nSwapFree:              7 kB\n");
  // Never more available than there is.
  EXPECT_NE(refresh_meminfo(host, {.free_kib = 90000}).find("MemAvailable:     100000 kB"),
            std::string::npos);
}

TEST(ProcTexts, MountPathsAreMangled) {
  EXPECT_EQ(mangle("/a b\\c\n#"), "/a\\040b\\134c\\012\\043");
}

TEST(ProcTexts, SmapsAreSummed) {
  const std::string smaps =
      "00001000-00002000 r--p 00000000 00:00 0 \nSize:                  4 kB\nRss:                 "
      "  4 kB\nVmFlags: rd\n"
      "00005000-00006000 r--p 00000000 00:00 0 \nSize:                  4 kB\nRss:                 "
      "  3 kB\n";
  const std::string sum = roll_up(smaps);
  EXPECT_TRUE(sum.starts_with("00001000-00006000 ---p ")) << sum;
  EXPECT_TRUE(sum.ends_with("[rollup]\nRss:                   7 kB\n")) << sum;
  EXPECT_EQ(roll_up(""), "");
}

TEST(ProcTexts, CpuMasks) {
  EXPECT_EQ(cpu_mask_text({}, 2), "3");
  EXPECT_EQ(cpu_mask_text({}, 40), "ff,ffffffff");
  EXPECT_EQ(cpu_mask_text({0x5}, 4), "5");
  EXPECT_EQ(cpu_list_text({}, 4), "0-3");
  EXPECT_EQ(cpu_list_text({0xd}, 4), "0,2-3");
}

TEST(ProcTexts, NumbersAreStrict) {
  EXPECT_EQ(parse_number("17"), 17);
  EXPECT_EQ(parse_number("0"), 0);
  for (const char* bad : {"", "01", "+1", "-1", "1x", "99999999999"})
    EXPECT_EQ(parse_number(bad), -1) << bad;
}

TEST(ProcTree, ShowsFixedFilesAndNoStrangers) {
  OneTask one;
  const Ref<Inode> root = make_proc_root(one.kernel, ViewConfig{});
  Task& task = *one.task;
  auto self = root->lookup(task, "self");
  ASSERT_TRUE(self && *self);
  EXPECT_EQ((*self)->readlink(task).value(), "1");
  auto none = root->lookup(task, "4711");
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  auto sys = root->lookup(task, "sys");
  ASSERT_TRUE(sys && *sys);
  EXPECT_TRUE((*sys)->is_dir());
  // Of processes only the kernel's own first one: the fixture's is not registered.
  // A name for the list: GCC 12 destroys the temporaries of a range's expression before the loop
  // runs.
  const std::vector<DirEntry> entries = root->read_dir(task).value();
  for (const DirEntry& entry : entries) EXPECT_LE(parse_number(entry.name), 1) << entry.name;
}

TEST(ProcTree, StatHas52Fields) {
  OneTask one;
  one.task->comm = "a (b) c";
  one.group->threads.push_back(one.task.get());
  ProcTarget target{one.group, 1, false};
  // The process is not in the kernel's list: as one that ended meanwhile.
  EXPECT_EQ(stat_text(target, *one.task).error(), ESRCH);
  Ref<ThreadGroup> listed = one.kernel.new_group(nullptr);
  ProcTarget zombie{listed, listed->pid, false};
  const std::string text = stat_text(zombie, *one.task).value();
  EXPECT_TRUE(text.starts_with(std::to_string(listed->pid) + " () "));
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 51);
}

}  // namespace
}  // namespace uks
