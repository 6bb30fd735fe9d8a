#include "protocol/link/ucx/ucx_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr char kName[] = "libucp.so.0";

// Set where the user has not.
constexpr struct {
  const char* name;
  const char* value;
} kEnvironment[] = {
    // A guest's manners: no signal handlers, no patched libc (so no cache of registrations either: what is worth it is
    // registered by Link::Register), nothing on stdout.
    {"UCX_HANDLE_ERRORS", "none"},
    {"UCX_DEBUG_SIGNO", "0"},
    {"UCX_MEM_EVENTS", "n"},
    {"UCX_RCACHE_ENABLE", "n"},
    {"UCX_LOG_FILE", "stderr"},
    {"UCX_LOG_LEVEL", "fatal"},  // what goes wrong comes back as a status, and is said in our own words
    // Reliable connections over RDMA where both hosts have it, else TCP. Not "rc", which brings datagrams along: soft-RoCE loses
    // endpoints that use them. Shared memory cannot be used by endpoints that notice the end of their peer.
    {"UCX_TLS", "rc_verbs,rc_mlx5,tcp"},
    // Links say themselves that they are there. UCX's way opens a TCP connection beside each over RDMA, at a port that no
    // firewall
    // knows, and does not notice a silent host while something waits to be acknowledged.
    {"UCX_KEEPALIVE_INTERVAL", "inf"},
    // As addresses are (ResolveForUcx).
    {"UCX_TCP_AF_PRIO", "inet"},
    // A listener that takes the place of one whose connections linger, as at tcp://.
    {"UCX_CM_REUSEADDR", "y"},
    // Frames are up to 1 MiB: the default of 8 KiB for what one system call sends costs a third of the rate.
    {"UCX_TCP_TX_SEG_SIZE", "64K"},
    {"UCX_TCP_RX_SEG_SIZE", "128K"},
};

Result<UcxLibrary> Load() {
  for (const auto& [name, value] : kEnvironment) setenv(name, value, 0);
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Status(StatusCode::kNotFound, std::string("UCX, which ucx:// addresses need, cannot be loaded (") +
                                             (why != nullptr ? why : "unknown error") +
                                             "): install the package libucx0, or use a tcp:// address");
  }
  UcxLibrary ucx;
  std::string missing;
#define TESSERA_UCX_FIND(name)                                            \
  ucx.name = reinterpret_cast<decltype(ucx.name)>(dlsym(library, #name)); \
  if (ucx.name == nullptr) missing = #name;
  TESSERA_UCX_FUNCTIONS(TESSERA_UCX_FIND)
#undef TESSERA_UCX_FIND
  if (missing.empty()) return ucx;
  return Status(StatusCode::kUnsupported,
                "the UCX of this host is too old for ucx:// addresses, it has no " + missing + ": install 1.12 or newer");
}

Result<ucp_context_h> MakeContext(UcxReach reach) {
  Result<const UcxLibrary*> ucx = LoadUcx();
  if (!ucx.ok()) return ucx.status();
  ucp_config_t* config = nullptr;
  ucs_status_t status = (*ucx)->ucp_config_read(nullptr, nullptr, &config);
  ucp_context_h context = nullptr;
  if (status == UCS_OK && reach == UcxReach::kThisHost) {
    status = (*ucx)->ucp_config_modify(config, "NET_DEVICES", "lo");
    if (status == UCS_OK) status = (*ucx)->ucp_config_modify(config, "TLS", "tcp");
  }
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    params.name = "tessera";
    status = (*ucx)->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  }
  if (config != nullptr) (*ucx)->ucp_config_release(config);
  if (status != UCS_OK) {
    const char* transports = getenv("UCX_TLS");
    return Status(StatusCode::kUnavailable, std::string("UCX finds no device to work with (") +
                                                (*ucx)->ucs_status_string(status) + "): look at UCX_TLS (" +
                                                (transports != nullptr ? transports : "") + "), UCX_NET_DEVICES and ucx_info -d");
  }
  LogDebug("UCX {} is in use", (*ucx)->ucp_get_version_string());
  return context;
}

}  // namespace

Result<const UcxLibrary*> LoadUcx() {
  static const Result<UcxLibrary> loaded = Load();
  if (!loaded.ok()) return loaded.status();
  return &loaded.value();
}

std::vector<std::string> UcxLibraryDirectories() {
  Result<const UcxLibrary*> ucx = LoadUcx();
  if (!ucx.ok()) return {};
  std::vector<std::string> directories;
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>((*ucx)->ucp_init_version), &library) != 0)
    directories.push_back(std::filesystem::path(library.dli_fname).parent_path());
  if (const char* modules = getenv("UCX_MODULE_DIR")) directories.push_back(modules);
  return directories;
}

Result<ucp_context_h> UcxContext(UcxReach reach) {
  if (reach == UcxReach::kThisHost) {
    static const Result<ucp_context_h> here = MakeContext(UcxReach::kThisHost);
    return here;
  }
  static const Result<ucp_context_h> anywhere = MakeContext(UcxReach::kNetwork);
  return anywhere;
}

}  // namespace tessera
