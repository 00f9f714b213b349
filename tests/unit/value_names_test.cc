// cmake-once
//
// Names of numbers in system calls, as strace shows them.
#include "trace/show/value_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <set>
#include <string>

namespace plumb {
namespace {

std::string text(const char* event, const char* field, std::uint64_t number, unsigned bits = 32) {
    return names_of_field(event, field).text_of(number, bits);
}
std::string name(const char* event, const char* field, std::uint64_t number, unsigned bits = 32) {
    return names_of_field(event, field).name_of(number, bits);
}

TEST(value_names, of_flags_beside_a_part_that_has_one_value) {
    EXPECT_EQ(text("syscall_entry_openat", "flags", O_RDONLY | O_CLOEXEC), "O_RDONLY|O_CLOEXEC");
    EXPECT_EQ(text("syscall_entry_openat", "flags", O_RDONLY), "O_RDONLY");
    EXPECT_EQ(text("syscall_entry_open", "flags", O_RDWR | O_SYNC), "O_RDWR|O_SYNC");
    EXPECT_EQ(text("syscall_entry_open", "flags", O_WRONLY | O_TMPFILE), "O_WRONLY|O_TMPFILE");
    EXPECT_EQ(text("syscall_entry_futex", "op", FUTEX_WAIT | FUTEX_PRIVATE_FLAG),
              "FUTEX_WAIT|FUTEX_PRIVATE_FLAG");
    EXPECT_EQ(text("syscall_entry_mmap", "flags", MAP_PRIVATE | MAP_ANONYMOUS, 64),
              "MAP_PRIVATE|MAP_ANONYMOUS");
    EXPECT_EQ(text("syscall_entry_socket", "type", SOCK_STREAM | SOCK_CLOEXEC), "SOCK_STREAM|SOCK_CLOEXEC");
    EXPECT_EQ(text("syscall_entry_clone", "clone_flags", CLONE_VM | SIGCHLD, 64), "SIGCHLD|CLONE_VM");
}

TEST(value_names, of_flags_alone) {
    EXPECT_EQ(text("syscall_entry_mmap", "prot", PROT_READ | PROT_WRITE, 64), "PROT_READ|PROT_WRITE");
    EXPECT_EQ(text("syscall_entry_mprotect", "prot", 0, 64), "PROT_NONE");
    EXPECT_EQ(text("syscall_entry_wait4", "options", WNOHANG), "WNOHANG");
    EXPECT_EQ(text("syscall_entry_access", "mode", 0), "F_OK");
}

/* Its upper bits were a number once, and no flags; the kernel takes them off. */
TEST(value_names, of_a_mount_with_its_magic_number) {
    EXPECT_EQ(text("syscall_entry_mount", "flags", MS_MGC_VAL, 64), "MS_MGC_VAL");
    EXPECT_EQ(text("syscall_entry_mount", "flags", MS_MGC_VAL | MS_RDONLY | MS_BIND, 64),
              "MS_MGC_VAL|MS_BIND|MS_RDONLY");
    EXPECT_EQ(text("syscall_entry_mount", "flags", MS_PRIVATE | MS_REC, 64), "MS_PRIVATE|MS_REC");
}

TEST(value_names, of_permissions_that_were_are_octal_as_those_that_are) {
    EXPECT_EQ(text("syscall_exit_umask", "ret", 022, 64), "022");
    EXPECT_EQ(text("syscall_entry_umask", "mask", 022), "022");
}

/* One behind the other, each without a value of its own. */
TEST(value_names, of_enumerators) {
    EXPECT_EQ(text("syscall_entry_waitid", "which", P_ALL), "P_ALL");
    EXPECT_EQ(text("syscall_entry_waitid", "which", P_PID), "P_PID");
    EXPECT_EQ(text("syscall_entry_waitid", "which", P_PGID), "P_PGID");
    EXPECT_EQ(text("syscall_entry_waitid", "which", P_PIDFD), "P_PIDFD");
}

TEST(value_names, of_numbers_without_any_are_empty) {
    EXPECT_EQ(text("syscall_entry_wait4", "options", 0), "");
    EXPECT_EQ(text("syscall_entry_lseek", "whence", 77), "");
    EXPECT_EQ(text("syscall_entry_openat", "dfd", 3), "");
    EXPECT_EQ(text("syscall_entry_read", "fd", 3), "");
    EXPECT_EQ(text("syscall_exit_read", "ret", 5, 64), "");
    EXPECT_EQ(text("shop:openat", "flags", O_RDWR), "");
}

TEST(value_names, leave_what_has_none_as_a_number) {
    EXPECT_EQ(text("syscall_entry_openat", "flags", 0x40000000u | O_RDWR), "O_RDWR|0x40000000");
    EXPECT_EQ(text("syscall_entry_wait4", "options", 0x100000u | WNOHANG), "WNOHANG|0x100000");
}

TEST(value_names, of_negative_numbers_whatever_the_fields_size) {
    EXPECT_EQ(text("syscall_entry_openat", "dfd", static_cast<std::uint64_t>(AT_FDCWD)), "AT_FDCWD");
    EXPECT_EQ(text("syscall_entry_openat", "dfd", static_cast<std::uint64_t>(AT_FDCWD), 64), "AT_FDCWD");
    EXPECT_EQ(text("syscall_entry_openat", "dfd", static_cast<std::uint32_t>(AT_FDCWD)), "AT_FDCWD");
    EXPECT_EQ(text("syscall_entry_mmap", "fd", ~std::uint64_t{0}, 64), "-1");
}

TEST(value_names, of_errors_stand_behind_the_number) {
    EXPECT_EQ(text("syscall_exit_openat", "ret", static_cast<std::uint64_t>(-ENOENT), 64), "-2 (ENOENT)");
    EXPECT_EQ(name("syscall_exit_openat", "ret", static_cast<std::uint64_t>(-ENOENT), 64), "ENOENT");
    EXPECT_EQ(name("syscall_exit_read", "ret", static_cast<std::uint64_t>(-EAGAIN), 64), "EAGAIN");
    EXPECT_EQ(name("syscall_exit_read", "ret", static_cast<std::uint64_t>(-512), 64), "ERESTARTSYS");
    EXPECT_EQ(name("syscall_exit_read", "ret", static_cast<std::uint64_t>(-4000), 64), "");
}

TEST(value_names, of_addresses_and_permissions_are_numbers_that_people_read) {
    EXPECT_EQ(text("syscall_exit_mmap", "ret", 0x7f00, 64), "0x7f00");
    EXPECT_EQ(text("syscall_exit_mmap", "ret", static_cast<std::uint64_t>(-ENOMEM), 64), "-12 (ENOMEM)");
    EXPECT_EQ(name("syscall_exit_mmap", "ret", 0x7f00, 64), "");
    EXPECT_EQ(text("syscall_entry_openat", "mode", 0644, 16), "0644");
    EXPECT_EQ(name("syscall_entry_openat", "mode", 0644, 16), "");
}

TEST(value_names, of_signals_and_commands) {
    EXPECT_EQ(text("syscall_entry_kill", "sig", SIGABRT), "SIGABRT");
    EXPECT_EQ(text("syscall_entry_kill", "sig", 0), "");
    EXPECT_EQ(text("syscall_entry_kill", "sig", 32), "SIGRTMIN");
    EXPECT_EQ(text("syscall_entry_tgkill", "sig", 64), "SIGRT_32");
    EXPECT_EQ(text("syscall_entry_fcntl", "cmd", F_DUPFD_CLOEXEC), "F_DUPFD_CLOEXEC");
    EXPECT_EQ(text("syscall_entry_membarrier", "cmd", 8), "MEMBARRIER_CMD_PRIVATE_EXPEDITED");
}

TEST(value_names, of_what_processes_share_stand_beside_permissions) {
    EXPECT_EQ(text("syscall_entry_shmget", "shmflg", IPC_CREAT | IPC_EXCL | 0600), "IPC_CREAT|IPC_EXCL|0600");
    EXPECT_EQ(text("syscall_entry_shmget", "key", IPC_PRIVATE), "IPC_PRIVATE");
    EXPECT_EQ(text("syscall_entry_semget", "semflg", IPC_CREAT | 0666), "IPC_CREAT|0666");
    EXPECT_EQ(text("syscall_entry_msgget", "msgflg", 0600), "0600");
    EXPECT_EQ(name("syscall_entry_msgget", "msgflg", 0600), "");
    EXPECT_EQ(text("syscall_entry_shmctl", "cmd", IPC_RMID), "IPC_RMID");
    EXPECT_EQ(text("syscall_entry_semctl", "cmd", SETVAL), "SETVAL");
    EXPECT_EQ(text("syscall_entry_msgrcv", "msgflg", IPC_NOWAIT | MSG_NOERROR), "IPC_NOWAIT|MSG_NOERROR");
    EXPECT_EQ(text("syscall_entry_sync_file_range", "flags", SYNC_FILE_RANGE_WRITE), "SYNC_FILE_RANGE_WRITE");
}

TEST(value_names, of_each_error_to_the_last) {
    const auto error = [](std::int64_t number) { return std::string(error_name(number)); };
    EXPECT_EQ(error(-1), "EPERM");
    EXPECT_EQ(error(-133), "EHWPOISON");
    EXPECT_EQ(error(-512), "ERESTARTSYS");
    EXPECT_EQ(error(-513), "ERESTARTNOINTR");
    EXPECT_EQ(error(-514), "ERESTARTNOHAND");
    EXPECT_EQ(error(-515), "ENOIOCTLCMD");
    EXPECT_EQ(error(-516), "ERESTART_RESTARTBLOCK");
    for (const std::int64_t number : {0L, 1L, 2L, 512L, -511L, -517L, -4095L, -4096L, INT64_MIN, INT64_MAX})
        EXPECT_EQ(error(number), "") << number;
}

TEST(value_names, of_every_real_time_signal) {
    EXPECT_EQ(text("syscall_entry_kill", "sig", 31), "SIGSYS");
    EXPECT_EQ(text("syscall_entry_kill", "sig", 32), "SIGRTMIN");
    for (unsigned number = 33; number <= 64; number++)
        EXPECT_EQ(text("syscall_entry_kill", "sig", number), "SIGRT_" + std::to_string(number - 32));
    EXPECT_EQ(text("syscall_entry_kill", "sig", 65), "");
}

TEST(value_names, of_permissions_are_octal_in_each_call_that_has_them) {
    for (const std::string call : {"open", "openat", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "chmod",
                                   "fchmod", "fchmodat", "mq_open", "fchmodat2", "umask"}) {
        const std::string event = "syscall_entry_" + call;
        EXPECT_EQ(text(event.c_str(), "mode", 0x1ff, 16), "0777") << call;
        EXPECT_EQ(text(event.c_str(), "mode", 0, 16), "0") << call;
        EXPECT_EQ(text(event.c_str(), "mode", 0xffff0007, 16), "07") << call;
        EXPECT_EQ(text(event.c_str(), "mask", 022), call == "umask" ? "022" : "") << call;
    }
    EXPECT_EQ(text("syscall_entry_openat", "other", 0644), "");
    EXPECT_EQ(text("syscall_entry_ioctl", "mode", 0644), "");
    EXPECT_EQ(text("syscall_entry_openat", "mode", ~std::uint64_t{0}, 64), "01777777777777777777777");
}

TEST(value_names, of_addresses_are_of_calls_that_return_one) {
    for (const std::string call : {"mmap", "brk", "mremap", "shmat"}) {
        const std::string event = "syscall_exit_" + call;
        EXPECT_EQ(text(event.c_str(), "ret", 0x7f0000001000, 64), "0x7f0000001000");
        EXPECT_EQ(text(event.c_str(), "ret", static_cast<std::uint64_t>(-EINVAL), 64), "-22 (EINVAL)");
        EXPECT_EQ(text(event.c_str(), "addr", 0x7f0000001000, 64), "");
    }
    EXPECT_EQ(text("syscall_exit_munmap", "ret", 0x7f00, 64), "");
    EXPECT_EQ(text("syscall_entry_mmap", "ret", 0x7f00, 64), "");
    EXPECT_EQ(text("syscall_entry_mmap", "fd", 0xfffffffffffffffe, 64), "-2");
    EXPECT_EQ(text("syscall_entry_mmap", "fd", 5, 64), "5");
    EXPECT_EQ(text("syscall_entry_munmap", "fd", 5, 64), "");
    EXPECT_EQ(name("syscall_entry_mmap", "fd", 5, 64), "");
}

TEST(value_names, of_fields_are_cut_to_their_size) {
    EXPECT_EQ(text("syscall_entry_kill", "sig", 0xffffffff00000006, 32), "SIGABRT");
    EXPECT_EQ(text("syscall_entry_kill", "sig", 0xffffffff00000006, 64), "");
    EXPECT_EQ(text("syscall_entry_kill", "sig", 0xff06, 8), "SIGABRT");
    EXPECT_EQ(text("syscall_entry_mprotect", "prot", 0xffffffff00000003, 32), "PROT_READ|PROT_WRITE");
}

/* Two names for one number: one of them would be shown, by chance. */
TEST(value_names, are_one_for_each_number) {
    for (const ValueTable& table : value_tables) {
        std::set<std::uint64_t> seen;
        for (const NamedValue& each : table.values)
            EXPECT_TRUE(seen.insert(each.value).second) << table.name << ": " << each.name;
    }
}

} // namespace
} // namespace plumb
