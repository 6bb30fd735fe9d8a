// The command line of a program that serves until a signal ends it: what tesserad, tessera-agent and tessera-gateway have in
// common.
//
//   ServiceCommandLine line("tessera-agent", "Takes the sessions of ...", kFooter, *options);
//   line.app().add_option("--listen", ...);                        // what only this program has
//   if (const int code = line.Parse(argc, argv); code >= 0) return code;
//   if (listen.empty()) return line.Refuse("--listen unix:PATH is required");
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <string>

#include "programs/service_options.h"
#include "protocol/link/link_options.h"

namespace tessera {

class ServiceCommandLine {
 public:
  // Begins with --help, --version, --completion, --log and --hello-timeout. `options` is filled in by Parse() and outlives this.
  ServiceCommandLine(const char* name, const char* description, const char* footer, ServiceOptions& options);
  CLI::App& app() { return app_; }
  // Options may stand in the file `name` (settings_file.h), or in another one: adds --config.
  void AddSettingsFile(const char* name);
  // Options that not all of them have.
  void AddSessionsMax(uint32_t* sessions_max);
  // Files of a certificate, its key and authorities, for whoever connects by TLS.
  void AddKeyOptions(KeyFiles* keys);
  // For the program's own network address. `listens`: also who may connect to it.
  void AddLinkOptions(LinkOptions* link, bool listens);
  void AddResumeGrace(uint32_t* resume_grace_s);
  void AddOwner();     // owner_fd and remove_directory
  void AddCarrying();  // carry_fd
  // A word of SandboxMode. `when`: what gives it up, and when.
  void AddSandbox(std::string* mode, const char* when = "the process that carries sessions gives up before it hears of one");

  // From now on Parse() and Refuse() say what is wrong there, without the program's name and its help, and nothing on stderr.
  void RefuseTo(std::string* sentence) { refusal_ = sentence; }
  // Reads the file of settings before. -1 when the program is to run, else its exit code: kServiceOk after --help, --version and
  // --completion, whose text went to stdout; kServiceUsage after an error, whose sentence went to stderr.
  int Parse(int argc, char** argv);
  // Says on stderr what is wrong with the command line, or with the line of the file of settings that has the option which `why`
  // names first; kServiceUsage.
  int Refuse(const std::string& why) const;

 private:
  // "FILE, line 3: " in front of it, if that can be said; else, behind it, that options are from the file.
  std::string WithSettings(const std::string& why) const;

  CLI::App app_;
  ServiceOptions& options_;
  std::string shell_;
  std::string settings_name_;  // empty: there is no such file
  std::string settings_path_;  // of --config
  std::string from_settings_;  // the file that options are from
  std::map<std::string, int> setting_lines_;
  std::string* refusal_ = nullptr;
};

}  // namespace tessera
