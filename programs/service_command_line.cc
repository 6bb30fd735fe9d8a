#include "programs/service_command_line.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "programs/completion.h"
#include "programs/config_lines.h"
#include "programs/manual.h"
#include "programs/settings_file.h"
#include "programs/unknown_word.h"

namespace tessera {

ServiceCommandLine::ServiceCommandLine(const char* name, const char* description, const char* footer, ServiceOptions& options)
    : app_(description, name), options_(options) {
  app_.set_version_flag("--version", std::string(name) + " " + TESSERA_VERSION, "Print the version and exit");
  app_.set_help_flag("-h,--help", "Print this text and exit");
  app_.footer(footer);
  app_.add_option("--completion", shell_, "Print a script that completes this program's command line, and exit")
      ->type_name(kShells);
  AddManual(app_, kServiceSection);
  app_.add_option("--log", options.log_word, "What to log on stderr: debug, info, warning, error or off")
      ->type_name("{debug,info,warning,error,off}")
      ->capture_default_str();
  app_.add_option("--hello-timeout", options.hello_timeout_s, "Seconds that whoever has connected may say nothing")
      ->type_name("SECONDS")
      ->check(CLI::Range(1U, 3600U).description("1 to 3600"))
      ->capture_default_str();
}

void ServiceCommandLine::AddSettingsFile(const char* name) {
  settings_name_ = name;
  app_.add_option(
          "--config", settings_path_,
          std::string("A file of options: lines KEY = VALUE, with options as keys, which the command line overrides; none: no "
                      "such file (default: $XDG_CONFIG_HOME/tessera/") +
              name + ", else /etc/tessera of root and ~/.config/tessera of others)")
      ->type_name("{none}|FILE");
}

void ServiceCommandLine::AddSessionsMax(uint32_t* sessions_max) {
  app_.add_option("--max-sessions", *sessions_max, "Sessions at once; more clients are turned away")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U).description("1 to 4096"))
      ->capture_default_str();
}

void ServiceCommandLine::AddKeyOptions(KeyFiles* keys) {
  app_.add_option("--certificate", keys->certificate,
                  "The certificate that this side shows at tls:// (PEM; default: $TESSERA_CERTIFICATE, else certificate.pem in "
                  "the directory of keys)")
      ->type_name("FILE");
  app_.add_option("--key", keys->key, "Its private key (default: $TESSERA_KEY, else key.pem there)")->type_name("FILE");
  app_.add_option(
          "--authority", keys->authority,
          "The certificates of who has to have signed the other side's (default: $TESSERA_AUTHORITY, else authority.pem there)")
      ->type_name("FILE");
}

void ServiceCommandLine::AddLinkOptions(LinkOptions* link, bool listens) {
  app_.add_flag("--insecure", link->insecure,
                "Allow a tcp:// address beyond this host, though nothing that travels there is encrypted or authenticated");
  AddKeyOptions(&link->keys);
  app_.add_option("--tls-records", link->tls_records,
                  "Who makes the records of TLS: own (tessera) or openssl (default: $TESSERA_TLS_RECORDS, else own)")
      ->type_name("{own,openssl}")
      ->check(CLI::IsMember({"own", "openssl"}).description(""));
  if (!listens) {
    app_.add_option("--connections", link->connections,
                    "Connections that a session's large copies share (default: 4 where there are 8 cores, else 1)")
        ->type_name("NUMBER")
        ->check(CLI::Range(1U, kConnectionsMax).description("1 to " + std::to_string(kConnectionsMax)));
    return;
  }
  app_.add_option("--allow", link->allow,
                  "A name in a certificate that may connect at tls://; once for each; none: whoever the authority signed")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app_.add_option("--allow-file", link->allow_file, "The same, one name in a line; read again when it changes")
      ->type_name("FILE");
}

void ServiceCommandLine::AddResumeGrace(uint32_t* resume_grace_s) {
  app_.add_option(
          "--resume-grace", *resume_grace_s,
          "Seconds that a session of another host is kept for its program to come back when the connection is lost; 0: none")
      ->type_name("SECONDS")
      ->check(CLI::Range(0U, kResumeGraceSMax).description("0 to " + std::to_string(kResumeGraceSMax)))
      ->capture_default_str();
}

void ServiceCommandLine::AddOwner() {
  app_.add_option("--owner-fd", options_.owner_fd)->group("");
  app_.add_flag("--remove-directory", options_.remove_directory)->group("");
}

void ServiceCommandLine::AddCarrying() { app_.add_option("--carry-fd", options_.carry_fd)->group(""); }

void ServiceCommandLine::AddSandbox(std::string* mode, const char* when) {
  app_.add_option(
          "--sandbox", *mode,
          "What " + std::string(when) +
              ": auto (what this machine can do), require (everything, or it ends), off, or log (nothing, but tell what would be "
              "refused)")
      ->type_name("{auto,require,off,log}")
      ->capture_default_str();
}

int ServiceCommandLine::Parse(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!settings_name_.empty()) {
    std::string path = SettingsPath(settings_name_);
    if (const std::optional<std::string> named = SettingsNamedIn(words)) path = *named == "none" ? "" : *named;
    Result<std::vector<std::string>> more = SettingsAsWords(app_, path, words, &setting_lines_);
    if (!more.ok()) return Refuse(more.status().message());
    words.insert(words.begin(), more->begin(), more->end());
    if (!more->empty()) from_settings_ = path;
  }
  std::ranges::reverse(words);
  try {
    app_.parse(words);
  } catch (const CLI::Success& success) {
    app_.exit(success, std::cout, std::cerr);
    return kServiceOk;
  } catch (const CLI::ParseError& error) {
    return Refuse(WithNearest(app_, error));
  }
  if (!shell_.empty()) {
    const std::string script = CompletionScript(app_, shell_);
    if (script.empty()) return Refuse("--completion takes bash, zsh or fish, not '" + shell_ + "'");
    std::cout << script;
    return kServiceOk;
  }
  if (!ParseLogLevel(options_.log_word, &options_.log_level)) {
    return Refuse("--log takes debug, info, warning, error or off, not '" + options_.log_word + "'");
  }
  return -1;
}

int ServiceCommandLine::Refuse(const std::string& why) const {
  if (refusal_ != nullptr) {
    *refusal_ = WithSettings(why);
  } else {
    std::cerr << app_.get_name() << ": " << WithSettings(why) << ". See " << app_.get_name() << " --help.\n";
  }
  return kServiceUsage;
}

std::string ServiceCommandLine::WithSettings(const std::string& why) const {
  if (from_settings_.empty()) return why;
  for (size_t at = why.find("--"); at != std::string::npos; at = why.find("--", at + 2)) {
    const size_t end = why.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    const auto line = setting_lines_.find(why.substr(at + 2, end - at - 2));
    if (line != setting_lines_.end()) return ConfigError(from_settings_, line->second, why).message();
  }
  return why + " (some options are from " + from_settings_ + ")";
}

}  // namespace tessera
