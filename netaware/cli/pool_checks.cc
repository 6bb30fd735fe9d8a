#include "netaware/cli/pool_checks.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "netaware/cli/admin_program.h"
#include "netaware/job/placer_path.h"
#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/ticket/ticket_keys.h"

namespace tessera {
namespace {

constexpr size_t kTextBytesMax = 4096;  // the printed bytes of a finding

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// The source of FindPlacer()'s address.
std::string SourceOf(const std::string& said, const JobConfig& config) {
  if (!said.empty()) return "--placer";
  if (!Variable("TESSERA_PLACER").empty()) return "TESSERA_PLACER";
  const JobConfig::Setting* const setting = config.Find("placer");
  return setting != nullptr ? fmt::format("{}, line {}", Printable(setting->path), setting->line) : "this user's own";
}

Finding FindingOf(const nlohmann::json& told) {
  const std::string grade = told.value("grade", "problem");
  return {grade == "good"   ? Grade::kGood
          : grade == "note" ? Grade::kNote
                            : Grade::kProblem,
          Printable(told.value("subject", "placer")), Printable(told.value("text", ""), kTextBytesMax),
          Printable(told.value("advice", ""), kTextBytesMax)};
}

std::vector<Finding> AskPlacer(const std::string& url, const KeyFiles& keys) {
  std::vector<std::string> words = {"doctor-pool", "--placer", url};
  for (const auto& [option, file] :
       {std::pair("--certificate", keys.certificate), {"--key", keys.key}, {"--authority", keys.authority}}) {
    if (!file.empty()) words.insert(words.end(), {option, file});
  }
  const Result<std::string> said = OutputOfAdminProgram(words);
  if (!said.ok()) return {{Grade::kProblem, "placer", said.status().message(), "install Tessera again"}};
  const nlohmann::json told = nlohmann::json::parse(said.value(), nullptr, false);
  std::vector<Finding> findings;
  if (told.is_object() && told.contains("findings") && told["findings"].is_array()) {
    for (const nlohmann::json& finding : told["findings"]) {
      if (finding.is_object()) findings.push_back(FindingOf(finding));
    }
  }
  if (!findings.empty()) return findings;
  return {{Grade::kProblem, "placer",
           "tessera-admin has not said how it is with " + Printable(url) + ": " + Printable(said.value()),
           "ask it by hand: tessera get servers --placer " + Printable(url)}};
}

Finding CheckTicket(const std::string& path, int64_t now_ms) {
  const std::string file = Printable(path);
  const Result<std::string> text = ReadSmallFile(path, kTicketBytesMax);
  if (!text.ok()) {
    return {Grade::kProblem, "ticket", text.status().message(),
            "it goes when the job of 'tessera run' has ended: start the program in a job of its own"};
  }
  const Result<Ticket> ticket = ReadUnprovedTicket(std::as_bytes(std::span(text.value())));
  if (!ticket.ok()) {
    return {Grade::kProblem, "ticket", file + ": " + ticket.status().message(),
            "leave TESSERA_TICKET and its files as 'tessera run' has made them"};
  }
  const Ticket& is = ticket.value();
  const std::string whose = fmt::format("{} is for {} at server {} of the pool '{}', grant {}", file, Printable(is.holder),
                                        Printable(is.server), Printable(is.cluster), GrantText(is.grant));
  const std::string when = DescribeTime(is.expires_ms / 1000);
  if (is.expires_ms > now_ms) return {Grade::kGood, "ticket", fmt::format("{}, until {}", whose, when), ""};
  return {Grade::kNote, "ticket", fmt::format("{}, and has ended at {}", whose, when),
          "new processes get GPUs only while the server has the grant still: see 'tessera get grants'; the job's tessera-lease "
          "renews "
          "tickets while the placer answers"};
}

}  // namespace

bool CheckConfig(JobConfig* config, std::vector<Finding>* findings) {
  Result<JobConfig> read = JobConfig::Read();
  if (!read.ok()) {
    findings->push_back({Grade::kProblem, "configuration", Printable(read.status().message(), kTextBytesMax),
                         "correct the file, or remove it; until then no job asks a placer"});
    return false;
  }
  *config = std::move(*read);
  for (const std::string& path : config->files()) {
    std::string keys;
    for (const JobConfig::Setting& setting : config->settings()) {
      if (setting.path == path) keys += (keys.empty() ? "" : ", ") + setting.key;
    }
    findings->push_back(
        {Grade::kGood, "configuration", Printable(path) + (keys.empty() ? " has nothing that counts" : " has " + keys), ""});
  }
  return true;
}

std::vector<Finding> CheckPlacer(const std::string& said, const JobConfig& config, const LinkOptions& link, bool passed_by,
                                 std::string* url) {
  JobOptions job;
  job.placer = said;
  config.Complete(&job);
  *url = FindPlacer(job.placer);
  if (url->empty()) return {};
  KeyFiles keys = link.keys;
  config.CompleteKeys(&keys.certificate, &keys.key, &keys.authority);
  std::vector<Finding> findings = {
      {Grade::kGood, "placer",
       fmt::format("its address is {} ({}){}{}", Printable(*url), SourceOf(said, config), HowPlacerIsTaken(job.placer),
                   passed_by ? "; jobs here do not ask it, since a server is named (--server, TESSERA_SERVER)" : ""),
       ""}};
  for (Finding& finding : AskPlacer(*url, keys)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> CheckTickets(std::string_view files, int64_t now_ms) {
  std::vector<Finding> findings;
  while (!files.empty()) {
    const size_t comma = files.find(',');
    findings.push_back(CheckTicket(std::string(files.substr(0, comma)), now_ms));
    files.remove_prefix(comma == std::string_view::npos ? files.size() : comma + 1);
  }
  return findings;
}

}  // namespace tessera
