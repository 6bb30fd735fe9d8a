#include "netaware/cli/keys_command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/server_description.h"
#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/link/tls/tls_keys.h"

namespace tessera {
namespace {

constexpr const char* kAuthorityFile = "/authority.pem";
constexpr const char* kAuthorityKeyFile = "/authority-key.pem";
constexpr uint32_t kAuthorityDays = 3650;
constexpr uint32_t kCertificateDays = 365;
constexpr time_t kDayS = 86'400;
// Certificates begin this long before now, because the clocks of two hosts differ.
constexpr time_t kBeforeS = 3'600;

Status CannotWrite(const std::string& path) {
  return Status(StatusCode::kPermissionDenied,
                "cannot write " + path + ": " + std::strerror(errno) + "; choose another directory");
}

// Writes files of one directory, each complete under its name or not at all; nobody else may read them.
class FileSet {
 public:
  explicit FileSet(std::string directory) : directory_(std::move(directory)) {}
  void Add(const std::string& name, std::string text) { files_.emplace_back(directory_ + name, std::move(text)); }

  Status Write(bool force) const {
    std::error_code error;
    if (!std::filesystem::is_directory(directory_, error)) {
      std::filesystem::create_directories(std::filesystem::path(directory_).parent_path(), error);
      if (mkdir(directory_.c_str(), 0700) != 0) return CannotWrite(directory_);
    }
    for (const auto& [path, text] : files_) {
      if (!force && access(path.c_str(), F_OK) == 0) {
        return Status(StatusCode::kPermissionDenied,
                      path + " is there already: choose another directory, or overwrite it with --force");
      }
    }
    for (const auto& [path, text] : files_) RETURN_IF_ERROR(WriteOne(path, text));
    return Status::Ok();
  }

  const std::vector<std::pair<std::string, std::string>>& files() const { return files_; }

 private:
  static Status WriteOne(const std::string& path, const std::string& text) {
    const std::string unfinished = path + ".new";
    unlink(unfinished.c_str());
    const UniqueFd file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.valid()) return CannotWrite(unfinished);
    const bool written =
        write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file.get()) == 0;
    if (written && rename(unfinished.c_str(), path.c_str()) == 0) return Status::Ok();
    const Status why = CannotWrite(path);
    unlink(unfinished.c_str());
    return why;
  }

  const std::string directory_;
  std::vector<std::pair<std::string, std::string>> files_;
};

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> names;
  for (;;) {
    const size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

std::string WithoutSlash(std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  return directory;
}

std::string ThisHost() {
  char name[65] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

Status Finish(const FileSet& files, bool force, const std::string& what, time_t ends) {
  RETURN_IF_ERROR(files.Write(force));
  std::printf("%s, until %s:\n", what.c_str(), DescribeTime(ends).c_str());
  for (const auto& [path, text] : files.files()) std::printf("  %s\n", path.c_str());
  return Status::Ok();
}

Status MakeAuthorityFiles(const KeysOptions& options, time_t begins, time_t ends) {
  std::string name = options.name;
  if (name.empty()) name = ("Tessera authority of " + ThisHost()).substr(0, CertificateRequest::kNameBytesMax);
  if (name.size() > CertificateRequest::kNameBytesMax || Printable(name) != name) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + Printable(name) + "' cannot be the name of an authority: --name takes 1 to " +
                      std::to_string(CertificateRequest::kNameBytesMax) + " bytes that can be printed");
  }
  Result<PemPair> made = MakeAuthority(name, begins, ends);
  if (!made.ok()) return made.status();
  FileSet files(WithoutSlash(options.subject));
  files.Add(kAuthorityKeyFile, std::move(made->key));
  files.Add(kAuthorityFile, std::move(made->certificate));
  return Finish(files, options.force, "the authority '" + name + "'", ends);
}

Status MakeCertificateFiles(const KeysOptions& options, time_t begins, time_t ends) {
  const std::string directory = WithoutSlash(options.authority);
  Result<std::string> authority = ReadSmallFile(directory + kAuthorityFile, kPemBytesMax);
  Result<std::string> authority_key = ReadSmallFile(directory + kAuthorityKeyFile, kPemBytesMax);
  const Status missing = authority.ok() ? authority_key.status() : authority.status();
  if (!missing.ok()) {
    return Status(missing.code(), "there is no authority: " + missing.message() +
                                      "; make one with 'tessera keys authority DIRECTORY', or say where it is with --authority");
  }
  CertificateRequest request{.name = "",
                             .names = {},
                             .server = options.action != "client",
                             .client = options.action != "server",
                             .begins = begins,
                             .ends = ends};
  if (request.server) {
    request.names = Split(options.subject);
    request.name = request.names.front();
  } else {
    request.name = options.subject;
  }
  const std::string place = !options.directory.empty() ? WithoutSlash(options.directory) : directory + "/" + request.name;
  if (options.directory.empty() && (request.name.find('/') != std::string::npos || request.name.starts_with('.'))) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + request.name + "' cannot be the name of a directory: say where the files go with --directory");
  }
  Result<PemPair> made = SignCertificate({*authority, *authority_key}, request);
  if (!made.ok()) return made.status();
  FileSet files(place);
  files.Add("/key.pem", std::move(made->key));
  files.Add("/certificate.pem", std::move(made->certificate));
  files.Add("/authority.pem", std::move(*authority));
  return Finish(files, options.force, "the certificate of the " + options.action + " '" + request.name + "'", ends);
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Status Show(const KeysOptions& options) {
  Result<CertificateDescription> description = DescribeCertificateFile(options.subject);
  if (!description.ok()) return description.status();
  const CertificateDescription& one = *description;
  std::vector<std::string> purposes;
  if (one.authority) purposes.push_back("authority");
  if (one.for_servers && !one.authority) purposes.push_back("server");
  if (one.for_clients && !one.authority) purposes.push_back("client");
  const time_t now = time(nullptr);
  const char* state = now > one.ends ? "expired" : now < one.begins ? "not yet valid" : "valid";
  if (options.output == "json") {
    const nlohmann::json json = {{"name", one.name},
                                 {"names", one.names},
                                 {"signed_by", one.issuer},
                                 {"purposes", purposes},
                                 {"begins", one.begins},
                                 {"ends", one.ends},
                                 {"state", state},
                                 {"key", one.key_id},
                                 {"signed_by_key", one.issuer_key_id},
                                 {"fingerprint", one.fingerprint}};
    std::printf("%s\n", JsonText(json, 2).c_str());
    return Status::Ok();
  }
  std::printf("name       %s\n", Printable(one.name).c_str());
  if (!one.names.empty()) std::printf("hosts      %s\n", Printable(Joined(one.names)).c_str());
  std::printf("purpose    %s\nsigned by  %s%s\nvalid      %s to %s (%s)\nkey        %s\nsha256     %s\n",
              Joined(purposes).c_str(), Printable(one.issuer).c_str(),
              one.issuer_key_id.empty() ? "" : (", key " + one.issuer_key_id).c_str(), DescribeTime(one.begins).c_str(),
              DescribeTime(one.ends).c_str(), state, one.key_id.empty() ? "it does not say" : one.key_id.c_str(),
              one.fingerprint.c_str());
  return Status::Ok();
}

}  // namespace

int KeysCommand(const KeysOptions& options) {
  const time_t now = time(nullptr);
  const uint32_t days = options.days != 0 ? options.days : options.action == "authority" ? kAuthorityDays : kCertificateDays;
  const time_t ends = now + static_cast<time_t>(days) * kDayS;
  const Status status = options.action == "show"        ? Show(options)
                        : options.action == "authority" ? MakeAuthorityFiles(options, now - kBeforeS, ends)
                                                        : MakeCertificateFiles(options, now - kBeforeS, ends);
  if (status.ok()) return kExitOk;
  std::fprintf(stderr, "tessera: %s\n", status.message().c_str());
  return kExitKeys;
}

}  // namespace tessera
