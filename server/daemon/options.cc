#include "server/daemon/options.h"

#include <stdlib.h>
#include <unistd.h>

#include <charconv>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "programs/default_socket.h"
#include "programs/service_command_line.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"
#include "protocol/link/link_address.h"
#include "protocol/link/typed_address.h"
#include "server/daemon/caller.h"
#include "server/daemon/metrics_listener.h"
#include "server/daemon/socket_options.h"
#include "server/daemon/state_file.h"
#include "server/daemon/warm_bounds.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(When clients may connect, one line on stdout says where and names the devices; everything else is on stderr. Clients are processes
of the same user (or of root), and of whom --socket-group and --socket-mode let in. SIGTERM and SIGINT end the server: no new sessions, then --grace seconds for those that are open; a
second signal ends them at once. SIGHUP lets it read the file of options again, and the files of --control tls://: broken ones change nothing. Of the
options admin, audit, grace, host-memory, log, max-sessions and start-wait change then; the log says which others need a restart.

Exit codes:
  0  ended after SIGTERM or SIGINT
  1  a system call failed that should not
  2  the command line was not understood
  3  no driver could be loaded, or it has no device
  4  a socket could not be bound, or the files for tls:// cannot be used
  5  --sandbox require or --check-sandbox, and this machine cannot do all of it

Environment:
  CUDA_VISIBLE_DEVICES   the devices that are served
  TESSERA_SOCKET_DIR     the directory of sockets that nobody names, instead of /run/tessera and $XDG_RUNTIME_DIR; commands too

Examples:
  tesserad
  tesserad --listen tls://gpu7:4180
  tesserad --listen unix:/srv/gpu.sock --control tls://gpu7:4181 --admin name:alice)";

// For what later servers of this user can use; empty: there is no place.
std::string CacheDirectory() {
  const char* const cache = getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/tessera";
  if (geteuid() == 0) return "/var/cache/tessera";
  const char* const home = getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/tessera" : "";
}

// Of --warm-workers. False: it is neither `auto` nor a number in range.
bool TakeWarmWorkers(const std::string& text, std::optional<uint32_t>* workers) {
  workers->reset();
  if (text == "auto") return true;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kWarmMax) return false;
  *workers = number;
  return true;
}

// Of --audit. False: it is none of them.
bool TakeAudit(const std::string& word, Options::Audit* audit) {
  const std::pair<const char*, Options::Audit> words[] = {
      {"off", Options::Audit::kOff}, {"log", Options::Audit::kLog}, {"end", Options::Audit::kEnd}};
  for (const auto& [name, value] : words) {
    if (word != name) continue;
    *audit = value;
    return true;
  }
  return false;
}

// Takes the values of --listen apart. Empty, or a sentence for the user.
std::string TakeListen(const std::vector<std::string>& listen, Options* options) {
  std::set<std::string> seen;
  for (const std::string& typed : listen) {
    const std::string url = AddressMeantBy(typed);
    if (HasLinkScheme(url)) {
      Result<LinkAddress> address = LinkAddress::Parse(url);
      if (!address.ok()) return address.status().message();
      options->gateway_urls.push_back(url);
      if (address->port == 0) continue;  // each gets another one
    } else if (const std::string path = UnixPathOf(url); path.empty()) {
      return "cannot listen on '" + Printable(typed) + "': --listen takes " + std::string(kTypedForms) + ", unix:PATH, " +
             LinkForms();
    } else if (options->listen_path.empty()) {
      options->listen_path = path;
    } else {
      options->more_paths.push_back(path);
    }
    if (!seen.insert(url).second) return "--listen names " + Printable(url) + " twice: leave one of them out";
  }
  if (options->listen_path.empty()) options->listen_path = UserSocketPath(DefaultSocket::kServer);
  return options->listen_path.empty() ? "there is no XDG_RUNTIME_DIR for the socket, and this user's directory in /tmp is "
                                        "another's: say where with --listen unix:PATH"
                                      : "";
}

// Takes the values of --control apart. Empty, or a sentence for the user.
std::string TakeControl(const std::vector<std::string>& control, Options* options, bool* is_auto) {
  constexpr std::string_view kTls = "tls://";
  std::string here;
  for (const std::string& typed : control) {
    const std::string word = typed == "auto" || typed == "none" ? typed : AddressMeantBy(typed, kControlPort);
    const bool beyond = word.starts_with(kTls);
    if (beyond) {
      if (const Result<LinkAddress> address = LinkAddress::Parse(word); !address.ok()) return address.status().message();
    } else if (word != "auto" && word != "none" && UnixPathOf(word).empty()) {
      return "--control takes unix:PATH, none or auto, and tls://HOST:PORT besides, not '" + Printable(typed) + "'";
    }
    std::string& to = beyond ? options->control_url : here;
    if (!to.empty()) return "there can be one --control unix:PATH, none or auto, and one --control tls://HOST:PORT";
    to = word;
  }
  *is_auto = here.empty() || here == "auto";
  options->control_is_asked = !*is_auto && here != "none";
  if (options->control_is_asked) options->control_path = UnixPathOf(here);
  const bool is_asked = options->control_is_asked || !options->control_url.empty();
  if (is_asked && !options->vgpus) return "--control needs a tessera-broker: leave --no-vgpus out";
#ifndef TESSERA_CONTROL_API
  if (!options->control_url.empty()) return "this build has no control API";
#endif
  return "";
}

// Looks at the values of --placer and --admission. Empty, or a sentence for the user.
std::string TakePlacer(const std::string& admission, Options* options) {
  const std::string typed = options->placer_url;
  options->placer_url = typed.empty() ? "" : AddressMeantBy(typed, kPlacerPort);
  const std::string& url = options->placer_url;
  if (admission != "auto" && admission != "open" && admission != "ticket")
    return "--admission takes auto, open or ticket, not '" + Printable(admission) + "'";
  if (admission == "ticket" && url.empty()) return "--admission ticket needs the placer that makes tickets: add --placer";
  options->needs_ticket = admission == "ticket" || (admission == "auto" && !url.empty());
  if (url.empty()) return "";
#ifndef TESSERA_CONTROL_API
  return "--placer: this build has no tessera-node";
#endif
  if (!options->vgpus) return "--placer needs a tessera-broker: leave --no-vgpus out";
  if (!UnixPathOf(url).empty()) return "";
  if (!url.starts_with("tls://")) return "--placer takes unix:PATH or tls://HOST:PORT, not '" + Printable(typed) + "'";
  const Result<LinkAddress> address = LinkAddress::Parse(url);
  return address.ok() ? "" : address.status().message();
}

// As ParseOptions(); `refusal`: where the sentence goes instead of stderr, or null.
int TakeOptions(int argc, char** argv, std::string* refusal, Options* options) {
  options->words.assign(argv + 1, argv + argc);
  ServiceCommandLine line("tesserad", "Runs the GPU work of Tessera clients on this machine.", kFooter, *options);
  line.RefuseTo(refusal);
  CLI::App& app = line.app();
  line.AddSettingsFile("tesserad.toml");
  std::vector<std::string> listen;
  app.add_option(
         "--listen", listen,
         "Where clients connect: unix:PATH (a socket of this user alone; default: /run/tessera/tessera.sock of root, else "
         "$XDG_RUNTIME_DIR/tessera.sock, where commands look for it); for an address of a network a tessera-gateway is started, "
         "for clients on other hosts. Once for each. A path alone is unix:PATH, a host alone tls://HOST:4180")
      ->type_name("unix:PATH|" + LinkForms("|"))
      ->allow_extra_args(false);
  std::string group;
  app.add_option(
         "--socket-group", group,
         "Whose members may connect to the socket of --listen unix:PATH besides this user and root: a group of this host. "
         "/run/tessera gets it, too")
      ->type_name("GROUP");
  std::string mode;
  app.add_option("--socket-mode", mode,
                 "The mode of that socket, octal: who may write to it may connect (default: 600, 660 with --socket-group)")
      ->type_name("MODE");
  app.add_option(
         "--admin", options->administrators,
         "Who sees all sessions of the server, besides root and this user: a user of this host, or name:X of a certificate; "
         "once for each. Others see their own, and sums")
      ->type_name("NAME")
      ->allow_extra_args(false);
  line.AddLinkOptions(&options->link, true);
  line.AddResumeGrace(&options->resume_grace_s);
  app.add_option("--driver", options->driver,
                 "The driver: cuda (libcuda.so.1), emulator (a GPU in software), the path of a library, or auto "
                 "(cuda when it has a device, else emulator)")
      ->type_name("{auto,cuda,emulator}|PATH")
      ->capture_default_str();
  line.AddSessionsMax(&options->sessions_max);
  app.add_option("--start-wait", options->start_wait_s,
                 "Seconds that a session waits for its turn while the server has as many as it may; 0: it is refused at once")
      ->type_name("SECONDS")
      ->check(CLI::Range(0U, 60U).description("0 to 60"))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--gpu-memory",
         [options](const std::string& text) {
           if (ParseBytes(text, &options->gpu_memory_bytes) && options->gpu_memory_bytes != 0) return;
           throw CLI::ValidationError(
               "--gpu-memory",
               "'" + Printable(text) + "' is no number of bytes above 0, with KiB, MiB, GiB, TiB or nothing behind it");
         },
         "of each GPU's memory, how much limits of vGPUs may add up to (such as 70GiB); all that it has by default")
      ->type_name("SIZE");
  app.add_option(
         "--host-memory", options->host_memory_mib,
         "MiB of host memory that sessions may have pinned or mapped for their GPUs, all together; 0: seven eighths of the "
         "machine's")
      ->type_name("MIB")
      ->check(CLI::Range(0U, 1U << 30).description("0 to 1073741824"))
      ->capture_default_str();
  app.add_option(
         "--image-cache", options->image_directory,
         "Where GPU code is kept that clients have sent, so that it is sent once (default: "
         "$XDG_CACHE_HOME/tessera/images, else /var/cache/tessera/images for root and ~/.cache/tessera/images for others)")
      ->type_name("DIRECTORY");
  app.add_option("--image-cache-size", options->image_gib, "GiB of GPU code that are kept; 0: none")
      ->type_name("GIB")
      ->check(CLI::Range(0U, 65536U).description("0 to 65536"))
      ->capture_default_str();
  std::string warm = "auto";
  app.add_option(
         "--warm-workers", warm,
         "Worker processes that wait for a session with the driver loaded and a context made on the first device, each of which "
         "takes some of its memory: 0 to 16, or auto (one, and more while short sessions begin close together)")
      ->type_name("{auto}|N")
      ->capture_default_str();
  app.add_option("--grace", options->grace_s,
                 "Seconds that sessions get to end by themselves after SIGTERM or SIGINT, before they are ended")
      ->type_name("SECONDS")
      ->check(CLI::Range(0U, 86400U).description("0 to 86400"))
      ->capture_default_str();
  app.add_option("--sandbox", options->sandbox_word,
                 "What workers and services give up before they serve a client: auto (what this machine can do), require "
                 "(everything, or no "
                 "server), off, or log (nothing, but tell what would be refused)")
      ->type_name("{auto,require,off,log}")
      ->capture_default_str();
  app.add_option("--worker-user", options->worker_user,
                 "Whom workers run as when root starts the server; root: whom it runs as itself")
      ->type_name("NAME")
      ->capture_default_str();
  std::string uids;
  app.add_option(
         "--worker-uids", uids,
         "User ids that no account has: every worker gets one for itself, instead of --worker-user. Events cannot be shared "
         "between processes then (cuIpcOpenEventHandle)")
      ->type_name("FIRST-LAST");
  std::string root = "private";
  app.add_option("--worker-root", root,
                 "What workers see of this machine's files: private (those that the driver needs), or machine (the names of all)")
      ->type_name("{private,machine}")
      ->capture_default_str();
  bool no_vgpus = false;
  app.add_flag("--no-vgpus", no_vgpus, "Start no tessera-broker: the server's GPUs are not divided");
  app.add_option(
         "--vgpus", options->vgpu_path,
         "A file with the vGPUs of this server's GPUs: TOML, or N and N lines ID REQUEST LIMIT GPU_MEM. It is watched: what "
         "changes there is in force at once")
      ->type_name("FILE");
  app.add_option("--policy", options->policies,
                 "Who is next on a GPU: fair, fixed, equal or priority; of one GPU (its number or UUID) or of all")
      ->type_name("[GPU=]NAME")
      ->allow_extra_args(false);
  std::string default_vgpu = "shared";
  app.add_option(
         "--default", default_vgpu,
         "What a session gets that names no vGPU: shared (what others leave, together with all other such sessions) or none "
         "(it is refused)")
      ->type_name("{shared,none}")
      ->capture_default_str();
  app.add_option("--default-request", options->default_request, "The request of a vGPU whose file states none (default: 0)")
      ->type_name("SHARE");
  app.add_option("--overrun-after", options->overrun_after,
                 "How long a session of a vGPU with overrun = end may run beyond its tokens while others wait (default: 5)")
      ->type_name("SECONDS");
  std::string audit = "log";
  app.add_option(
         "--audit", audit,
         "What happens to a session whose worker uses a GPU without reporting it, as NVML sees it: log (a word in the log), "
         "end (it is ended as well), or off (nobody looks)")
      ->type_name("{off,log,end}")
      ->capture_default_str();
  app.add_option(
         "--record", options->record_path,
         "Where the broker writes down what it is told and what it decides, for tessera-replay; FILE-2 and so on when it is "
         "started anew")
      ->type_name("FILE");
  std::vector<std::string> control;
  app.add_option(
         "--control", control,
         "Where the control API listens, by which vGPUs are made and changed (tessera vgpu): unix:PATH, none, or auto "
         "(beside the first socket of --listen unix:PATH, with .control at the end; the default); who may connect as for that "
         "socket. Besides, tls://HOST:PORT for other hosts, with the files of --certificate, --key, --authority and the "
         "names of --allow. A path alone is unix:PATH, a host alone tls://HOST:4181")
      ->type_name("{auto,none}|unix:PATH|tls://HOST:PORT")
      ->allow_extra_args(false);
  std::string state = "auto";
  app.add_option(
         "--state", state,
         "The file in which vGPUs of the control API outlive the server: FILE, none, or auto (one for each socket path, in "
         "$XDG_STATE_HOME/tessera, else /var/lib/tessera for root and ~/.local/state/tessera for others)")
      ->type_name("{auto,none}|FILE")
      ->capture_default_str();
  app.add_option(
         "--metrics", options->metrics_address,
         "Where Prometheus asks what the broker counts (http://ADDRESS:PORT/metrics), of the loopback device only: every user "
         "of this host may ask. Off by default")
      ->type_name("127.0.0.1:PORT");
  app.add_option(
         "--placer", options->placer_url,
         "The placer of the pool to which this server belongs (tessera-placer): a tessera-node is started, which joins it "
         "with the files of --certificate, --key and --authority. A path alone is unix:PATH, a host alone tls://HOST:4190")
      ->type_name("unix:PATH|tls://HOST:PORT");
  app.add_option("--host-id", options->host_id,
                 "How the server is called in the pool of --placer, as no other is (default: the host's name and a number)")
      ->type_name("NAME");
  std::string admission = "auto";
  app.add_option(
         "--admission", admission,
         "Whose sessions are admitted: open (whoever may connect), ticket (those with a ticket of the placer; any user of "
         "this host may show one), or auto (ticket with --placer, else open)")
      ->type_name("{auto,open,ticket}")
      ->capture_default_str();
  CLI::Option* const usage_days =
      app.add_option(
             "--usage-days", options->usage_days,
             "How long it is kept what each vGPU used in each second (tessera vgpu usage), beside the file of --state; 0: "
             "it is not")
          ->type_name("DAYS")
          ->check(CLI::Range(0U, 3660U).description("0 to 3660"))
          ->capture_default_str();
  app.add_flag("--check-sandbox", options->check_sandbox,
               "Say in a line what workers give up on this machine, and end: nothing is served");
  line.AddOwner();
  app.add_option("--ready-timeout", options->ready_timeout_s)->group("")->check(CLI::Range(1U, 3600U));
  app.add_option("--worker-fd", options->worker_fd)->group("");
  app.add_option("--device-page-fd", options->device_page_fd)->group("");
  app.add_option("--device-slot", options->device_slot)->group("");
  app.add_option("--shares-fd", options->shares_fd)->group("");
  app.add_option("--gate-fd", options->gate_fd)->group("");
  app.add_option("--report-fd", options->report_fd)->group("");
  app.add_option("--event-fd", options->event_fd)->group("");
  app.add_option("--gpus", options->gpus)->group("");
  app.add_option("--probe-fd", options->probe_fd)->group("");
  app.add_flag("--measure-contexts", options->measure_contexts)->group("");
  app.add_option("--trial-fd", options->trial_fd)->group("");
  app.add_option("--shared-memory", options->shared_memory)->group("");
  std::string calls;
  app.add_option("--calls", calls)->group("");
  app.add_option("--monitor-fd", options->monitor_fd)->group("");
  app.add_option("--keeper-fd", options->keeper_fd)->group("");
  app.add_option("--images-fd", options->images_fd)->group("");
  app.add_option("--session", options->session)->group("");
  app.add_option("--parent-pid", options->parent_pid)->group("");
  app.add_option("--worker-uid", options->worker_uid)->group("");
  app.add_option("--priorities", options->priorities)->group("");
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  options->settings = SettingsIn(app);
  if (!ParseSandboxMode(options->sandbox_word, &options->sandbox)) {
    return line.Refuse("--sandbox takes auto, require, off or log, not '" + options->sandbox_word + "'");
  }
  if (!TakeWarmWorkers(warm, &options->warm_workers)) {
    return line.Refuse("--warm-workers takes auto or a number from 0 to 16, not '" + warm + "'");
  }
  if (default_vgpu != "shared" && default_vgpu != "none") {
    return line.Refuse("--default takes shared or none, not '" + default_vgpu + "'");
  }
  options->no_default_vgpu = default_vgpu == "none";
  if (!TakeAudit(audit, &options->audit)) return line.Refuse("--audit takes off, log or end, not '" + audit + "'");
  // A private server works for one program.
  options->vgpus = !no_vgpus && options->owner_fd < 0;
  const bool wants_broker = !options->vgpu_path.empty() || options->no_default_vgpu || !options->record_path.empty() ||
                            options->audit == Options::Audit::kEnd;
  if (!options->vgpus && wants_broker) {
    return line.Refuse("--vgpus, --default none, --record and --audit end need a tessera-broker: leave --no-vgpus out");
  }
  if (root != "private" && root != "machine") return line.Refuse("--worker-root takes private or machine, not '" + root + "'");
  options->private_root = root == "private";
  if (!uids.empty()) {
    const Result<UidRange> range = ParseUidRange(uids);
    if (!range.ok()) return line.Refuse(range.status().message());
    if (geteuid() != 0)
      return line.Refuse("--worker-uids is for servers that root starts: others cannot give a process another user");
    options->worker_uids = range.value();
  }
  options->role = options->worker_fd >= 0    ? Options::Role::kWorker
                  : options->monitor_fd >= 0 ? Options::Role::kMonitor
                  : options->keeper_fd >= 0  ? Options::Role::kImageKeeper
                  : options->probe_fd >= 0   ? Options::Role::kProbe
                  : options->trial_fd >= 0   ? Options::Role::kTrial
                                             : Options::Role::kDaemon;
  if (calls == "refuse") options->calls = CallFilter::kRefusingList;
  options->cache_directory = CacheDirectory();
  if (options->role != Options::Role::kDaemon || (options->check_sandbox && listen.empty())) return -1;
  if (options->image_directory.empty() && !options->cache_directory.empty()) {
    options->image_directory = options->cache_directory + "/images";
  }
  if (options->image_directory.empty()) options->image_gib = 0;
  if (const std::string problem = TakePlacer(admission, options); !problem.empty()) return line.Refuse(problem);
  if (options->needs_ticket)
    options->no_default_vgpu = true;  // nobody comes without a vGPU, and none of the time is kept for him
  if (options->needs_ticket && mode.empty() && group.empty()) mode = "666";
  Result<SocketAccess> socket = ParseSocketAccess(group, mode);
  if (!socket.ok()) return line.Refuse(socket.status().message());
  options->socket = *socket;
  bool auto_control = true;
  if (const std::string problem = TakeControl(control, options, &auto_control); !problem.empty()) return line.Refuse(problem);
  for (std::string& administrator : options->administrators) {
    Result<std::string> holder = ParseAdministrator(administrator);
    if (!holder.ok()) return line.Refuse(holder.status().message());
    administrator = *holder;
  }
  if (const std::string problem = TakeListen(listen, options); !problem.empty()) return line.Refuse(problem);
#ifdef TESSERA_CONTROL_API
  if (auto_control && options->vgpus) options->control_path = options->listen_path + ".control";
#endif
  if (!options->metrics_address.empty()) {
#ifndef TESSERA_CONTROL_API
    return line.Refuse("--metrics: this build has no metrics");
#endif
    if (!IsMetricsAddress(options->metrics_address)) {
      return line.Refuse("--metrics takes 127.0.0.1:PORT, not '" + Printable(options->metrics_address) + "'");
    }
    if (!options->vgpus) return line.Refuse("--metrics needs a tessera-broker: leave --no-vgpus out");
  }
  if (!options->placer_url.empty() && options->control_path.empty()) {
    return line.Refuse("--placer needs the control API of this host: leave --control none out");
  }
  options->state_is_asked = state != "auto" && state != "none";
  const bool has_control = !options->control_path.empty() || !options->control_url.empty();
  if (options->state_is_asked && !has_control) {
    return line.Refuse("--state is for what a control API makes: leave --control none and --no-vgpus out");
  }
  if (options->state_is_asked) options->state_path = state;
  if (state == "auto" && has_control) options->state_path = DefaultStatePath(options->listen_path);
  options->usage_is_asked = usage_days->count() > 0 && options->usage_days > 0;
  if (options->usage_is_asked && options->state_path.empty()) {
    return line.Refuse(
        "--usage-days needs a control API and a place beside its state: leave --control none, --state none and "
        "--no-vgpus out");
  }
#ifdef TESSERA_CONTROL_API
  if (options->usage_days > 0 && !options->state_path.empty()) options->usage_directory = options->state_path + kUsageEnd;
#else
  if (options->usage_is_asked) return line.Refuse("--usage-days: this build keeps no usage records");
#endif
  return -1;
}

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) { return TakeOptions(argc, argv, nullptr, options); }

Result<Options> ParseOptionsAgain(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"tesserad"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  Options options;
  std::string refusal;
  if (TakeOptions(static_cast<int>(argv.size()), argv.data(), &refusal, &options) < 0) return options;
  return Status(StatusCode::kInvalidArgument, refusal);
}

}  // namespace tessera
