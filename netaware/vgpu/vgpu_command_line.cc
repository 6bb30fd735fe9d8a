#include "netaware/vgpu/vgpu_command_line.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <tuple>
#include <utility>

#include "netaware/vgpu/usage_time.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(create   makes a vGPU. Default: request as of tesserad --default-request, limit 1, as much of the GPU's memory as the
         request is of its time, GPU 0, priority normal, for everybody
resize   changes what is named, at once, also while programs run in it
delete   removes it; while programs run in it with --force alone, which ends them
import   makes all vGPUs of a file, as tesserad --vgpus reads it (TOML or Gemini's form, 64 KiB at most), or none
list     the vGPUs: all for root, the server's user and those of tesserad --admin, who may also change them; for others
         those that they may use
show     one of them
watch    the list, again whenever it changes
usage    what vGPUs used, from the server's records (tesserad --usage-days): GPU time, waits, time with calls, mean share while
         there were sessions, memory at most, launches. GPU time is counted while several share the GPU, or one has a limit

Exit codes: 0; 2 the command line was not understood; 71 the address is neither unix:PATH nor tls://HOST:PORT; 72 nobody answers there; 73 not
allowed, or a certificate was not accepted; 74 the server is of another release; 76 a part of the installation is missing; 79 it cannot be: the sentence says which field, its value, by how much

Environment:
  TESSERA_CONTROL   the address when there is no --control
  TESSERA_SERVER    the server's address when there is no --control and no --server; else one at the default socket is taken
  TESSERA_CERTIFICATE, TESSERA_KEY, TESSERA_AUTHORITY   files for tls://, when there is no --certificate, --key, --authority

Examples:
  tessera vgpu create train --request 0.6 --owner uid:1000
  tessera vgpu resize train --request 0.3 --memory 20GiB
  tessera vgpu create batch --annotation fastgshare/gpu_quota_request=0.3 --annotation fastgshare/gpu_mem=8589934592
  tessera vgpu delete train --force --grace 30
  tessera vgpu import vgpus.toml
  tessera vgpu usage train --since 7d --by day
  tessera vgpu list --control gpu7.example)";

}  // namespace

CLI::App* AddVgpuCommand(CLI::App& app, VgpuOptions* options) {
  CLI::App* command = app.add_subcommand("vgpu", "make, change, delete and show the vGPUs of a server");
  command->add_option("action", options->action, "what to do")
      ->required()
      ->type_name("{create,resize,delete,import,list,show,watch,usage}")
      ->check(CLI::IsMember({"create", "resize", "delete", "import", "list", "show", "watch", "usage"}));
  command->add_option("name", options->name, "the vGPU; not of list and watch; import: the file; usage: of all without")
      ->type_name("NAME|FILE");
  command->add_option("--request", options->request, "share of the GPU's time that it gets whenever it wants it, 0 to 1")
      ->type_name("SHARE");
  command->add_option("--limit", options->limit, "share that it never exceeds")->type_name("SHARE");
  command
      ->add_option_function<std::string>(
          "--memory",
          [options](const std::string& text) {
            uint64_t bytes = 0;
            const bool is_none = text == "none";
            if (!is_none && (!ParseBytes(text, &bytes) || bytes == 0)) {
              throw CLI::ValidationError("--memory", "'" + Printable(text) +
                                                         "' is neither none nor a number of bytes above 0, with " +
                                                         "KiB, MiB, GiB, TiB or nothing behind it");
            }
            options->memory_bytes = bytes;
          },
          "how much of the GPU's memory its programs may hold together, such as 8GiB, or none: no limit")
      ->type_name("SIZE");
  command
      ->add_option_function<std::string>(
          "--max-sessions",
          [options](const std::string& text) {
            uint32_t most = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), most);
            const bool is_number = error == std::errc() && end == text.data() + text.size() && most != 0;
            if (!is_number && text != "none") {
              throw CLI::ValidationError("--max-sessions", "'" + Printable(text) + "' is neither none nor a number above 0");
            }
            options->max_sessions = most;
          },
          "how many sessions (processes that use CUDA) are in it at a time, or none: no limit")
      ->type_name("N");
  command->add_option("--gpu", options->gpu, "create: its number in the server's list (tessera status), or its UUID")
      ->type_name("GPU");
  command->add_option("--priority", options->priority, "for the policy priority")->type_name("{protected,normal,best-effort}");
  command->add_option("--overrun", options->overrun, "whether a session that runs on beyond its tokens is billed or ended")
      ->type_name("{bill,end}");
  command
      ->add_option(
          "--owner", options->owners,
          "who may use it: a user of this host, uid:N, or name:X of a certificate, once for each; everybody alone: whoever "
          "may use the server")
      ->type_name("OWNER")
      ->allow_extra_args(false);
  command
      ->add_option_function<std::vector<std::string>>(
          "--annotation",
          [options](const std::vector<std::string>& all) {
            for (const std::string& text : all) {
              const size_t equals = text.find('=');
              if (equals == 0 || equals == std::string::npos) {
                throw CLI::ValidationError("--annotation", "'" + Printable(text) + "' is not of the form KEY=VALUE");
              }
              const auto [there, is_new] = options->annotations.emplace(text.substr(0, equals), text.substr(equals + 1));
              if (is_new || there->second == text.substr(equals + 1)) continue;
              throw CLI::ValidationError("--annotation",
                                         "'" + Printable(there->first) + "' is said twice, with different values");
            }
          },
          "once for each: a field in FaST-GShare's words: fastgshare/gpu_quota_request, fastgshare/gpu_quota_limit (shares), "
          "fastgshare/gpu_mem (bytes); and fastgshare/gpu_sm_partition (percent of SMs), which is kept and has no effect yet")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--revision", options->revision,
                   "resize, delete: only if it is this one still (show tells); else nothing is done")
      ->type_name("N");
  command->add_flag("--force", options->force, "delete: end the sessions that use it");
  command->add_option("--grace", options->grace_s, "delete --force: how long they have before")->type_name("SECONDS");
  command
      ->add_option("--request-id", options->request_id,
                   "create, resize, delete, import: a word of your own; said again with the same words it is done once")
      ->type_name("ID");
  command->add_option("--since", options->since, "usage: from when on (default: 1d): " + std::string(kUsageTimeForms))
      ->type_name("TIME");
  command->add_option("--until", options->until, "usage: until when (default: now)")->type_name("TIME");
  command->add_option("--by", options->by, "usage: a row for each of these, by UTC")
      ->check(CLI::IsMember({"hour", "day", "all"}))
      ->capture_default_str();
  command->add_option("--count", options->count, "watch: how many lists")->type_name("N");
  command
      ->add_option(
          "--control", options->control,
          "address of the control API, as tesserad --control has it; a path alone is unix:PATH, a host alone tls://HOST:4181 "
          "(default: $TESSERA_CONTROL, else beside the server's)")
      ->type_name("unix:PATH|tls://HOST:PORT");
  command
      ->add_option("--certificate", options->certificate,
                   "certificate to show at tls:// (default: $TESSERA_CERTIFICATE, else ~/.config/tessera/certificate.pem)")
      ->type_name("FILE");
  command->add_option("--key", options->key, "its private key (default: $TESSERA_KEY, else ~/.config/tessera/key.pem)")
      ->type_name("FILE");
  command
      ->add_option("--authority", options->authority,
                   "certificate of who signed the server's (default: $TESSERA_AUTHORITY, else ~/.config/tessera/authority.pem)")
      ->type_name("FILE");
  command
      ->add_option("--server", options->server,
                   "address of the tesserad (default: $TESSERA_SERVER, else one of this host at its default socket)")
      ->type_name("unix:PATH");
  command->add_option("-o,--output", options->output, "form of the output")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->footer(kFooter);
  return command;
}

std::string CheckVgpuOptions(const VgpuOptions& options) {
  const std::string& action = options.action;
  const auto is = [&](std::initializer_list<std::string_view> actions) {
    return std::find(actions.begin(), actions.end(), action) != actions.end();
  };
  const bool has_name = !is({"list", "watch"});
  if (has_name && options.name.empty() && action != "usage") {
    return action + (action == "import" ? " wants the file" : " wants the name of a vGPU");
  }
  if (!has_name && !options.name.empty()) return action + " takes no name, not '" + options.name + "'";
  const bool puts = is({"create", "resize"}), changes = puts || is({"delete", "import"});
  const std::pair<const char*, bool> wrong[] = {
      {"--request", options.request && !puts},
      {"--limit", options.limit && !puts},
      {"--memory", options.memory_bytes && !puts},
      {"--max-sessions", options.max_sessions && !puts},
      {"--gpu", options.gpu && action != "create"},
      {"--priority", options.priority && !puts},
      {"--overrun", options.overrun && !puts},
      {"--owner", !options.owners.empty() && !puts},
      {"--annotation", !options.annotations.empty() && !puts},
      {"--revision", options.revision && !is({"resize", "delete"})},
      {"--force", options.force && action != "delete"},
      {"--grace without --force", options.grace_s && !options.force},
      {"--request-id", options.request_id && !changes},
      {"--count", options.count && action != "watch"},
      {"--since", !options.since.empty() && action != "usage"},
      {"--until", !options.until.empty() && action != "usage"},
      {"--by", options.by != "all" && action != "usage"},
  };
  for (const auto& [option, is_wrong] : wrong) {
    if (is_wrong) return action + " takes no " + option;
  }
  int64_t since = 0, until = INT64_MAX;
  for (const auto& [option, text, to] :
       {std::tuple("--since", &options.since, &since), std::tuple("--until", &options.until, &until)}) {
    if (text->empty() || ParseUsageTime(*text, time(nullptr), to)) continue;
    return std::string(option) + ": '" + Printable(*text) + "' is no time: " + kUsageTimeForms;
  }
  if (until < since) return "--until is before --since";
  const bool says = options.request || options.limit || options.memory_bytes || options.max_sessions || options.priority ||
                    options.overrun || !options.owners.empty() || !options.annotations.empty();
  if (action == "resize" && !says) return "resize wants what is to change, like --request 0.5";
  return "";
}

}  // namespace tessera
