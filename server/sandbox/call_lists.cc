#include "server/sandbox/call_lists.h"

#include <sys/syscall.h>

namespace tessera {
namespace {

#define CALL(name) \
  { SYS_##name, #name }
// Whose number older headers lack.
#define NEW(name, number) \
  { number, #name }

// clang-format off
constexpr KnownCall kAllowed[] = {
    // Memory of its own.
    CALL(mmap), CALL(munmap), CALL(mremap), CALL(mprotect), CALL(brk), CALL(madvise), CALL(mincore), CALL(mlock),
    CALL(mlock2), CALL(munlock), CALL(mlockall), CALL(munlockall), CALL(msync), CALL(memfd_create), CALL(mbind),
    CALL(set_mempolicy), CALL(get_mempolicy), CALL(pkey_alloc), CALL(pkey_free), CALL(pkey_mprotect),
    CALL(membarrier), NEW(set_mempolicy_home_node, 450), NEW(map_shadow_stack, 453), NEW(mseal, 462),
    // Threads and their waiting.
    CALL(futex), CALL(set_robust_list), CALL(set_tid_address), CALL(gettid), CALL(getpid), CALL(getppid), CALL(exit),
    CALL(exit_group), CALL(rseq), CALL(sched_yield), CALL(sched_getaffinity), CALL(sched_getscheduler),
    CALL(sched_getparam), CALL(sched_getattr), CALL(sched_get_priority_max), CALL(sched_get_priority_min),
    CALL(sched_rr_get_interval), CALL(getpriority), CALL(ioprio_get), CALL(getcpu), CALL(restart_syscall),
    CALL(wait4), CALL(waitid), NEW(futex_waitv, 449), NEW(futex_wake, 454), NEW(futex_wait, 455),
    NEW(futex_requeue, 456),
    // Time.
    CALL(nanosleep), CALL(clock_nanosleep), CALL(clock_gettime), CALL(clock_getres), CALL(gettimeofday), CALL(times),
    CALL(getitimer), CALL(setitimer), CALL(timer_create), CALL(timer_settime), CALL(timer_gettime),
    CALL(timer_getoverrun), CALL(timer_delete), CALL(timerfd_create), CALL(timerfd_settime), CALL(timerfd_gettime),
    // Signals of its own.
    CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigpending), CALL(rt_sigsuspend),
    CALL(rt_sigtimedwait), CALL(sigaltstack), CALL(signalfd4),
    // Descriptors.
    CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(pread64), CALL(pwrite64), CALL(preadv), CALL(pwritev),
    CALL(preadv2), CALL(pwritev2), CALL(lseek), CALL(close), CALL(close_range), CALL(dup), CALL(dup3), CALL(pipe2),
    CALL(eventfd2), CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_pwait), CALL(epoll_pwait2), CALL(ppoll),
    CALL(pselect6), CALL(sendfile), CALL(copy_file_range), CALL(fsync), CALL(fdatasync), CALL(sync_file_range),
    CALL(ftruncate), CALL(fallocate), CALL(fadvise64), CALL(readahead), CALL(flock), CALL(pidfd_open),
    // Files by name, which other rules look after, and what they are.
    CALL(openat), CALL(openat2), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(faccessat), CALL(faccessat2),
    CALL(readlinkat), CALL(getdents64), CALL(mkdirat), CALL(unlinkat), CALL(renameat2), CALL(statfs), CALL(fstatfs),
    CALL(getcwd), CALL(chdir), CALL(fchdir), CALL(umask), CALL(utimensat), CALL(truncate), CALL(fchmod),
    // Sockets that there are.
    CALL(bind), CALL(listen), CALL(accept), CALL(accept4), CALL(getsockname), CALL(getpeername), CALL(getsockopt),
    CALL(sendto), CALL(sendmsg), CALL(sendmmsg), CALL(recvfrom), CALL(recvmsg), CALL(recvmmsg), CALL(shutdown),
    // Who and where it is.
    CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(getresuid), CALL(getresgid), CALL(getgroups),
    CALL(getpgid), CALL(getsid), CALL(capget), CALL(uname), CALL(sysinfo), CALL(getrusage), CALL(getrlimit),
    CALL(setrlimit), CALL(getrandom),
#if defined(__x86_64__)
    // The same by older numbers, and what other processors lack.
    CALL(open), CALL(creat), CALL(stat), CALL(lstat), CALL(access), CALL(readlink), CALL(getdents), CALL(mkdir),
    CALL(rmdir), CALL(unlink), CALL(rename), CALL(renameat), CALL(utime), CALL(utimes), CALL(futimesat), CALL(dup2),
    CALL(pipe), CALL(eventfd), CALL(epoll_create), CALL(epoll_wait), CALL(poll), CALL(select), CALL(signalfd),
    CALL(alarm), CALL(pause), CALL(time), CALL(getpgrp), CALL(arch_prctl),
#endif
};

constexpr KnownCall kLookedAt[] = {
    CALL(socket), CALL(socketpair), CALL(clone), CALL(clone3), CALL(kill), CALL(tkill), CALL(tgkill),
    CALL(rt_sigqueueinfo), CALL(rt_tgsigqueueinfo), CALL(prlimit64), CALL(sched_setaffinity),
    CALL(sched_setscheduler), CALL(sched_setparam), CALL(sched_setattr), CALL(setpriority), CALL(ioprio_set),
    CALL(migrate_pages), CALL(move_pages), CALL(fcntl), CALL(ioctl), CALL(prctl), CALL(setsockopt),
};

constexpr KnownCall kRefused[] = {
    // Connections. What the daemon passed and what the client sends stays usable.
    CALL(connect),
    // Other processes. pidfd_open stays: the channel waits for its client's end with one, and nothing else can be done with it.
    CALL(ptrace), CALL(process_vm_readv), CALL(process_vm_writev), CALL(pidfd_getfd), CALL(pidfd_send_signal),
    CALL(kcmp), CALL(process_madvise), NEW(process_mrelease, 448),
    // What is shared by name or number with all processes of a user, and outlives them.
    CALL(shmget), CALL(shmat), CALL(shmctl), CALL(shmdt), CALL(semget), CALL(semop), CALL(semctl), CALL(semtimedop),
    CALL(msgget), CALL(msgsnd), CALL(msgrcv), CALL(msgctl), CALL(mq_open), CALL(mq_unlink), CALL(mq_timedsend),
    CALL(mq_timedreceive), CALL(mq_notify), CALL(mq_getsetattr),
    // Programs.
    CALL(execve), CALL(execveat),
    // What filters and rules would not see.
    CALL(io_uring_setup), CALL(io_uring_enter), CALL(io_uring_register), CALL(io_setup), CALL(io_submit),
    CALL(io_cancel), CALL(io_destroy), CALL(io_getevents), CALL(open_by_handle_at), CALL(name_to_handle_at),
    CALL(seccomp), NEW(lsm_set_self_attr, 460),
    // Help for those who attack the kernel.
    CALL(userfaultfd), CALL(bpf), CALL(perf_event_open), NEW(memfd_secret, 447),
    // Mounts and namespaces.
    CALL(mount), CALL(umount2), CALL(pivot_root), CALL(chroot), CALL(unshare), CALL(setns), CALL(open_tree),
    CALL(move_mount), CALL(fsopen), CALL(fsconfig), CALL(fsmount), CALL(fspick), CALL(mount_setattr),
    NEW(statmount, 457), NEW(listmount, 458), NEW(open_tree_attr, 467), NEW(listns, 470),
    // The machine.
    CALL(init_module), CALL(finit_module), CALL(delete_module), CALL(kexec_load), CALL(reboot), CALL(swapon),
    CALL(swapoff), CALL(acct), CALL(quotactl), CALL(syslog), CALL(settimeofday), CALL(clock_settime), CALL(adjtimex),
    CALL(clock_adjtime), CALL(sethostname), CALL(setdomainname), CALL(fanotify_init), CALL(fanotify_mark),
    CALL(personality), CALL(vhangup), CALL(lookup_dcookie), NEW(quotactl_fd, 443),
    // Keys, users and rights.
    CALL(add_key), CALL(request_key), CALL(keyctl), CALL(setuid), CALL(setgid), CALL(setreuid), CALL(setregid),
    CALL(setresuid), CALL(setresgid), CALL(setfsuid), CALL(setfsgid), CALL(setgroups), CALL(capset), CALL(mknodat),
    // Names and rights of files, which Landlock leaves alone.
    CALL(fchmodat), CALL(fchownat), CALL(fchown), CALL(setxattr), CALL(lsetxattr), CALL(fsetxattr), CALL(removexattr),
    CALL(lremovexattr), CALL(fremovexattr), CALL(linkat), CALL(symlinkat), NEW(fchmodat2, 452), NEW(setxattrat, 463),
    NEW(removexattrat, 466), NEW(file_setattr, 469),
#if defined(__x86_64__)
    // The same by older numbers, and what other processors lack.
    CALL(fork), CALL(vfork), CALL(iopl), CALL(ioperm), CALL(modify_ldt), CALL(kexec_file_load), CALL(mknod),
    CALL(chmod), CALL(chown), CALL(lchown), CALL(link), CALL(symlink), CALL(uselib), CALL(ustat), CALL(sysfs),
#endif
};

constexpr KnownCall kOpening[] = {
    CALL(openat), CALL(openat2),
#if defined(__x86_64__)
    CALL(open), CALL(creat),
#endif
};
// clang-format on

#undef NEW
#undef CALL

}  // namespace

std::span<const KnownCall> AllowedCalls() { return kAllowed; }
std::span<const KnownCall> LookedAtCalls() { return kLookedAt; }
std::span<const KnownCall> RefusedCalls() { return kRefused; }
std::span<const KnownCall> OpeningCalls() { return kOpening; }

}  // namespace tessera
