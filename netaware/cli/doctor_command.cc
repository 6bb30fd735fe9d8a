#include "netaware/cli/doctor_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/found_server.h"
#include "netaware/cli/host_checks.h"
#include "netaware/cli/install_layout.h"
#include "netaware/cli/library_checks.h"
#include "netaware/cli/pool_checks.h"
#include "netaware/cli/private_server.h"
#include "netaware/cli/server_check.h"
#include "netaware/cli/server_description.h"
#include "netaware/cli/server_list.h"
#include "netaware/cli/server_reach.h"
#include "protocol/base/printable.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_identity.h"

namespace tessera {
namespace {

constexpr std::string_view kTlsScheme = "tls://";

void Append(std::vector<Finding>* findings, std::vector<Finding> more) {
  findings->insert(findings->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// The versions of both sides, for information: the server was reached, so they match.
Finding DescribeVersions(const ServerReport& report, const nlohmann::json& server) {
  const std::string driver = server.contains("driver_release") ? " " + std::string(server["driver_release"]) : "";
  return {
      Grade::kGood, "versions",
      fmt::format("tessera {} with wire version {}; {} with wire version {}; driver {}{}, CUDA {}", TESSERA_VERSION, kWireVersion,
                  report.server, report.wire_version, report.driver, driver, std::string(server["cuda_version"])),
      ""};
}

// The devices that a program would get. Fills in `*server` if a server answers, and adds a finding about the versions. `said`:
// the way in which the server was found.
Finding CheckReach(const InstallLayout& layout, std::string url, std::string said, const LinkOptions& link,
                   nlohmann::json* server, std::vector<Finding>* findings) {
  if (url.empty()) {
    PrivateServer own;
    const ServerProblem problem = PrivateServer::Start(layout.daemon, "auto", &own);
    if (problem.exit_code != kExitOk) {
      return {Grade::kProblem, "private server",
              problem.sentence.empty() ? "it did not start; its words are above" : problem.sentence,
              "try the emulated GPU: tessera run --driver emulator -- PROGRAM"};
    }
    url = own.url;
    said = "a private server comes up, ";
  }
  ServerUrls address;
  ServerReport report;
  ServerProblem problem = ReachServer(url, link, &address);
  if (problem.exit_code == kExitOk) problem = CheckServer(address, ServerQuery::Ask::kState, &report);
  if (problem.exit_code != kExitOk) {
    return {Grade::kProblem, "server", problem.sentence,
            "see 'tessera run --help', exit code " + std::to_string(problem.exit_code)};
  }
  *server = ServerAsJson(url, report);
  findings->push_back(DescribeVersions(report, *server));
  const size_t devices = (*server)["devices"].size();
  if (devices == 0) return {Grade::kProblem, "server", url + " serves no device", "look at it with nvidia-smi on its host"};
  said += url + " answers: " + std::string((*server)["devices"][0]["name"]);
  if (devices > 1) said += " and " + std::to_string(devices - 1) + " more";
  if (report.driver == "emulator") {
    return {Grade::kNote, "server", said,
            "this is a GPU in software, right but slow; start tesserad on a machine with a GPU for a real one"};
  }
  return {Grade::kGood, "server", said, ""};
}

// The certificate for tls://. The check of the server reports an unusable one.
std::vector<Finding> CheckCertificate(const LinkOptions& link) {
  constexpr time_t kSoonS = 14 * 86'400;
  const std::string path = LocateKeyFiles(TlsRole::kClient, link.keys).certificate;
  const Result<CertificateDescription> description = DescribeCertificateFile(path);
  if (!description.ok()) return {};
  const CertificateDescription& own = description.value();
  const time_t now = time(nullptr);
  const std::string whose = path + " is that of " + Printable(own.name);
  if (own.ends <= now) {
    return {{Grade::kProblem, "certificate", whose + " and has expired (" + DescribeTime(own.ends) + ")",
             "ask for a new one ('tessera keys client', 'tessera keys renew' before it ends)"}};
  }
  if (own.begins > now) {
    return {{Grade::kProblem, "certificate", whose + " and is not valid before " + DescribeTime(own.begins),
             "correct this host's clock, or wait"}};
  }
  const bool soon = own.ends < now + kSoonS;
  return {{soon ? Grade::kNote : Grade::kGood, "certificate", whose + " until " + DescribeTime(own.ends),
           soon ? "ask for a new one in time ('tessera keys client')" : ""}};
}

// Checks the pool's parts: settings, placer, and the tickets of the job to which this process belongs. True if there is a
// placer.
bool CheckPool(const std::string& placer, const LinkOptions& link, bool server_named, std::vector<Finding>* findings) {
  JobConfig config;
  const bool is_sound = CheckConfig(&config, findings);
  std::string url;
  std::vector<Finding> of_placer;
  if (is_sound) of_placer = CheckPlacer(placer, config, link, server_named, &url);
  if (url.starts_with(kTlsScheme)) {
    LinkOptions completed = link;
    config.CompleteKeys(&completed.keys.certificate, &completed.keys.key, &completed.keys.authority);
    Append(findings, CheckCertificate(completed));
  }
  Append(findings, std::move(of_placer));
  if (const char* const tickets = getenv("TESSERA_TICKET"); tickets != nullptr)
    Append(findings, CheckTickets(tickets, int64_t{time(nullptr)} * 1000));
  return !url.empty();
}

const char* Word(Grade grade) { return grade == Grade::kGood ? "good" : grade == Grade::kNote ? "note" : "problem"; }

// Escape sequences only on a terminal (https://no-color.org).
const char* Colour(Grade grade) {
  const char* terminal = getenv("TERM");
  static const bool wanted =
      isatty(STDOUT_FILENO) != 0 && getenv("NO_COLOR") == nullptr && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
  if (!wanted) return "";
  return grade == Grade::kGood ? "\033[32m" : grade == Grade::kNote ? "\033[33m" : "\033[31m";
}

void PrintText(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    const char* colour = Colour(finding.grade);
    std::printf("%s%-8s%s%s: %s\n", colour, Word(finding.grade), *colour == '\0' ? "" : "\033[0m", finding.subject.c_str(),
                finding.text.c_str());
    if (!finding.advice.empty()) std::printf("        %s\n", finding.advice.c_str());
  }
}

void PrintJson(const std::vector<Finding>& findings, const nlohmann::json& server, bool good) {
  nlohmann::json json = {{"version", TESSERA_VERSION}, {"good", good}, {"findings", nlohmann::json::array()}};
  for (const Finding& finding : findings) {
    nlohmann::json entry = {{"grade", Word(finding.grade)}, {"subject", finding.subject}, {"text", finding.text}};
    if (!finding.advice.empty()) entry["advice"] = finding.advice;
    json["findings"].push_back(std::move(entry));
  }
  if (!server.is_null()) json["server"] = server;
  std::printf("%s\n", JsonText(json, 2).c_str());
}

}  // namespace

int DoctorCommand(const DoctorOptions& options, const std::string& placer) {
  std::string url = options.server;
  if (const char* configured = getenv("TESSERA_SERVER"); url.empty() && configured != nullptr) url = configured;
  std::vector<Finding> findings;
  nlohmann::json server;
  Append(&findings, CheckSystem());
  if (const Result<InstallLayout> layout = InstallLayout::Find(); layout.ok()) {
    Append(&findings, CheckInstallation(layout.value()));
    Append(&findings, CheckClientLibraries(layout.value()));
    Append(&findings, CheckLibraryPath(layout.value()));
    if (!options.program.empty()) Append(&findings, CheckProgram(layout.value(), options.program));
    Append(&findings, CheckLocalDriver());
    const bool has_placer = CheckPool(placer, options.link, !url.empty(), &findings);
    std::string said;
    if (url.empty() && !has_placer) {
      const FoundServer found = FoundServer::Find();
      url = found.url;
      if (!url.empty()) said = "none is named, and ";
      if (!found.closed.empty()) {
        findings.push_back({Grade::kNote, "server", "the server " + found.closed + " is not for this user",
                            "ask its administrator for the group of its socket (--socket-group)"});
      }
    }
    // Checks each of several servers; the JSON form has the last one that answers.
    std::vector<std::string> urls = {""};
    const ServerProblem problem = url.empty() ? ServerProblem{} : SplitServers(url, &urls);
    if (problem.exit_code != kExitOk) {
      urls.clear();
      findings.push_back({Grade::kProblem, "server", problem.sentence, "see 'tessera run --help'"});
    }
    for (const std::string& one : urls) {
      if (one.starts_with(kUnixScheme)) Append(&findings, CheckSocket(one.substr(kUnixScheme.size())));
      const Result<LinkAddress> address = LinkAddress::Parse(one);
      if (address.ok() && address.value().scheme == LinkScheme::kTls) Append(&findings, CheckCertificate(options.link));
      std::vector<Finding> versions;
      findings.push_back(CheckReach(layout.value(), one, said, options.link, &server, &versions));
      Append(&findings, std::move(versions));
    }
  } else {
    findings.push_back({Grade::kProblem, "installation", layout.status().message(), "install Tessera again"});
  }
  bool good = true;
  for (const Finding& finding : findings) good = good && finding.grade != Grade::kProblem;
  if (options.output == "json") {
    PrintJson(findings, server, good);
  } else {
    PrintText(findings);
  }
  return good ? kExitOk : kExitInternal;
}

}  // namespace tessera
