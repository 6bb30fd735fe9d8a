// Loads UCX when an ucx:// address is used, and not before. So programs run where it is not installed, and it does nothing to a
// process that does not use it.
//
// Loading libucs alone takes over SIGHUP, SIGILL, SIGBUS, SIGFPE and SIGSEGV; ucp_init() patches libc's mmap and munmap in place
// when there is an RDMA device, and logs to stdout. LoadUcx() prevents all of that by the environment, where UCX looks before its
// own ucx.conf. What the user has set there stays: UCX_TLS, UCX_NET_DEVICES and UCX_IB_GID_INDEX are the site's choice.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "protocol/base/status.h"

namespace tessera {

// The functions of UCX that are used, under their own names: ucx.ucp_worker_progress(worker).
// clang-format off
#define TESSERA_UCX_FUNCTIONS(USE)                                                                                    \
  USE(ucp_config_read) USE(ucp_config_modify) USE(ucp_config_release) USE(ucp_init_version) USE(ucp_worker_create)     \
  USE(ucp_worker_destroy) USE(ucp_worker_get_efd) USE(ucp_worker_arm) USE(ucp_worker_progress)                              \
  USE(ucp_worker_set_am_recv_handler)                                                                                 \
  USE(ucp_listener_create) USE(ucp_listener_query) USE(ucp_listener_reject) USE(ucp_listener_destroy)                 \
  USE(ucp_conn_request_query) USE(ucp_ep_create) USE(ucp_ep_close_nbx) USE(ucp_ep_print_info) USE(ucp_am_send_nbx)    \
  USE(ucp_am_recv_data_nbx) USE(ucp_am_data_release) USE(ucp_mem_map) USE(ucp_mem_unmap) USE(ucp_request_free)        \
  USE(ucp_get_version_string) USE(ucs_status_string)
// clang-format on

struct UcxLibrary {
#define TESSERA_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_UCX_FUNCTIONS(TESSERA_UCX_MEMBER)
#undef TESSERA_UCX_MEMBER
};

// Loads UCX once, for ever; later calls return the same. It changes the environment, so call it before the first thread. A
// process forked after LoadUcx() but before UcxContext() may use UCX. kNotFound: UCX is missing; names the package to install.
// kUnsupported: it is older than 1.12.
Result<const UcxLibrary*> LoadUcx();

// As UcxDirectories() (ucx_link.h).
std::vector<std::string> UcxLibraryDirectories();

// Which devices connections may use. UCX listens on every device that it uses, so a link for this host alone may use only the
// loopback device.
enum class UcxReach { kThisHost, kNetwork };

// The process' one context for `reach`. The first call makes it, and starts a thread of UCX, so call it after fork(2).
// kUnavailable: UCX finds no usable device. Any thread.
Result<ucp_context_h> UcxContext(UcxReach reach);

}  // namespace tessera
