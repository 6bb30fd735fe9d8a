#include "server/sandbox/call_lists.h"

#include <sys/syscall.h>

namespace tessera {
namespace {

#define CALL(name) \
  { SYS_##name, #name }

constexpr KnownCall kRefused[] = {
    // Connections. What the daemon passed and what the client sends stays usable.
    CALL(connect),
    // Other processes. pidfd_open stays: the channel waits for its client's end with one, and nothing else can be done
    // with it.
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(pidfd_getfd),
    CALL(pidfd_send_signal),
    CALL(kcmp),
    CALL(process_madvise),
    // Programs.
    CALL(execve),
    CALL(execveat),
    // What filters and rules would not see.
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    CALL(open_by_handle_at),
    CALL(name_to_handle_at),
    // Mounts and namespaces.
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(chroot),
    CALL(unshare),
    CALL(setns),
    CALL(open_tree),
    CALL(move_mount),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(mount_setattr),
    // The machine.
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(kexec_load),
    CALL(reboot),
    CALL(swapon),
    CALL(swapoff),
    CALL(acct),
    CALL(quotactl),
    CALL(syslog),
    CALL(settimeofday),
    CALL(clock_settime),
    CALL(adjtimex),
    CALL(clock_adjtime),
    CALL(sethostname),
    CALL(setdomainname),
    CALL(bpf),
    CALL(perf_event_open),
    CALL(fanotify_init),
    CALL(personality),
    CALL(vhangup),
    CALL(lookup_dcookie),
    // Keys, users and rights.
    CALL(add_key),
    CALL(request_key),
    CALL(keyctl),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(setgroups),
    CALL(capset),
    CALL(mknodat),
    // Names and rights of files, which Landlock leaves alone.
    CALL(fchmodat),
    CALL(fchownat),
    CALL(fchown),
    CALL(setxattr),
    CALL(lsetxattr),
    CALL(fsetxattr),
    CALL(removexattr),
    CALL(lremovexattr),
    CALL(fremovexattr),
#if defined(__x86_64__)
    CALL(fork),
    CALL(vfork),
    CALL(iopl),
    CALL(ioperm),
    CALL(modify_ldt),
    CALL(kexec_file_load),
    CALL(mknod),
    CALL(chmod),
    CALL(chown),
    CALL(lchown),
    CALL(uselib),
    CALL(ustat),
    CALL(sysfs),
#endif
};

constexpr KnownCall kOpening[] = {
    CALL(openat),
    CALL(openat2),
#if defined(__x86_64__)
    CALL(open),
    CALL(creat),
#endif
};

#undef CALL

}  // namespace

std::span<const KnownCall> RefusedCalls() { return kRefused; }
std::span<const KnownCall> OpeningCalls() { return kOpening; }

}  // namespace tessera
