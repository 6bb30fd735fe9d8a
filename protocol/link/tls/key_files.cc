#include "protocol/link/tls/key_files.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "protocol/base/small_file.h"
#include "protocol/channel/server_user.h"
#include "protocol/link/tls/tls_certificate.h"

namespace tessera {
namespace {

Status Unusable(const std::string& sentence) { return Status(StatusCode::kPermissionDenied, sentence); }

std::string DefaultDirectory(TlsRole role) {
  if (role == TlsRole::kServer && geteuid() == 0) return "/etc/tessera";
  const char* config = getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return std::string(config) + "/tessera";
  const char* home = getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.config/tessera";
}

Result<UniqueFd> Open(const LinkOptions& options, const std::string& path) {
  return options.open_file ? options.open_file(path) : OpenSmallFile(path);
}

Result<std::string> ReadFile(const LinkOptions& options, const std::string& path) {
  Result<UniqueFd> file = Open(options, path);
  return file.ok() ? ReadSmallFile(*file, path, kPemBytesMax) : file.status();
}

// The text of a file that the user named, or should have put at its place.
Result<std::string> ReadKeyFile(const LinkOptions& options, const std::string& path, const char* what, const char* option,
                                TlsRole role) {
  Result<std::string> text = ReadFile(options, path);
  if (text.ok()) return text;
  if (text.status().code() == StatusCode::kNotFound) {
    return Unusable(std::string("there is no ") + what + " at " + path + ", which tls:// needs: make one with " +
                    KeysCommand(role) + ", or say where it is with " + option);
  }
  return Unusable(text.status().message());
}

Status CheckPrivate(const LinkOptions& options, const std::string& path) {
  struct stat state {};
  if (!LookAtKeyFile(options, path, &state)) return Status::Ok();  // ReadKeyFile says so
  // In a root of its own a process may have no number for root (server/sandbox); whoever opens the file for it has.
  const bool is_unknown = options.open_file && IsUnknownUser(state.st_uid);
  if (state.st_uid != geteuid() && state.st_uid != 0 && !is_unknown) {
    return Unusable("the private key " + path + " belongs to another user, who can read it: make one of your own");
  }
  if ((state.st_mode & 077) == 0) return Status::Ok();
  return Unusable("the private key " + path + " can be read by others: chmod 600 " + path);
}

Status CheckUnchangeable(const LinkOptions& options, const std::string& path) {
  struct stat state {};
  if (!LookAtKeyFile(options, path, &state) || (state.st_mode & 022) == 0) return Status::Ok();
  return Unusable("the authority " + path + " can be changed by others: chmod 644 " + path);
}

// The names in a file, one in a line; what stands behind a # is for people.
std::vector<std::string> NamesIn(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    line = line.substr(0, line.find('#'));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos) names.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
    begin = end + 1;
  }
  return names;
}

}  // namespace

const char* KeysCommand(TlsRole role) {
  return role == TlsRole::kClient ? "'tessera keys client NAME'" : "'tessera keys server NAME'";
}

KeyTexts::~KeyTexts() { explicit_bzero(key.data(), key.size()); }

bool LookAtKeyFile(const LinkOptions& options, const std::string& path, struct stat* state) {
  if (!options.open_file) return stat(path.c_str(), state) == 0;
  Result<UniqueFd> file = options.open_file(path);
  return file.ok() && fstat(file->get(), state) == 0;
}

KeyFiles LocateKeyFiles(TlsRole role, const KeyFiles& files) {
  const std::string directory = DefaultDirectory(role);
  const auto locate = [&](const std::string& given, const char* variable, const char* name) {
    if (!given.empty()) return given;
    const char* configured = getenv(variable);
    return configured != nullptr && *configured != '\0' ? std::string(configured) : directory + "/" + name;
  };
  return {locate(files.certificate, "TESSERA_CERTIFICATE", "certificate.pem"), locate(files.key, "TESSERA_KEY", "key.pem"),
          locate(files.authority, "TESSERA_AUTHORITY", "authority.pem")};
}

std::vector<std::string> FilesOf(TlsRole role, const LinkOptions& options) {
  const KeyFiles files = LocateKeyFiles(role, options.keys);
  return {files.certificate, files.key, files.authority, options.allow_file};
}

Result<KeyTexts> ReadKeyFiles(TlsRole role, const KeyFiles& files, const LinkOptions& options) {
  KeyTexts texts;
  Result<std::string> certificate = ReadKeyFile(options, files.certificate, "certificate", "--certificate", role);
  if (!certificate.ok()) return certificate.status();
  texts.certificate = std::move(*certificate);
  RETURN_IF_ERROR(CheckPrivate(options, files.key));
  Result<std::string> key = ReadKeyFile(options, files.key, "private key", "--key", role);
  if (!key.ok()) return key.status();
  texts.key.swap(*key);
  RETURN_IF_ERROR(CheckUnchangeable(options, files.authority));
  Result<std::string> authority = ReadKeyFile(options, files.authority, "certificate of an authority", "--authority", role);
  if (!authority.ok()) return authority.status();
  texts.authority = std::move(*authority);

  texts.allowed = options.allow;
  texts.restricted = !options.allow.empty() || !options.allow_file.empty();
  if (options.allow_file.empty()) return texts;
  Result<std::string> names = ReadFile(options, options.allow_file);
  if (!names.ok()) return Unusable("the names that may connect: " + names.status().message() + "; correct --allow-file");
  for (std::string& name : NamesIn(*names)) texts.allowed.push_back(std::move(name));
  return texts;
}

}  // namespace tessera
