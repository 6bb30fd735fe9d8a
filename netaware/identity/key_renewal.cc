#include "netaware/identity/key_renewal.h"

#include <errno.h>
#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "generated/control/identity.grpc.pb.h"
#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/key_files.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/link/tls/tls_keys.h"

namespace tessera {
namespace {

constexpr std::string_view kPemBegin = "-----BEGIN CERTIFICATE-----";

StatusCode CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::PERMISSION_DENIED: return StatusCode::kPermissionDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return StatusCode::kResourceExhausted;
    case grpc::StatusCode::INVALID_ARGUMENT: return StatusCode::kInvalidArgument;
    case grpc::StatusCode::UNIMPLEMENTED: return StatusCode::kVersionMismatch;
    default: return StatusCode::kUnavailable;
  }
}

Result<std::string> Ask(const std::string& url, const KeyFiles& files, const std::string& request, uint64_t wait_ns,
                        const RpcMeans& means) {
  Result<RpcConnection> connection = ConnectRpc(url, files, {.what = "placer", .program = "tessera-placer"},
                                                "start tessera-placer, or correct --placer", wait_ns, means);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(wait_ns));
  control::v1::RenewCertificateRequest message;
  message.set_request(request);
  control::v1::RenewedCertificate renewed;
  const grpc::Status status =
      control::v1::IdentityService::NewStub(connection->channel)->RenewCertificate(&context, message, &renewed);
  if (const Status failure = connection->failure(); !failure.ok()) return failure;
  if (!status.ok()) return Status(CodeOf(status.error_code()), Printable(status.error_message()));
  return renewed.certificate();
}

// Replaces the whole file, or nothing.
Status Replace(const std::string& path, const std::string& text) {
  std::error_code error;
  // The target of a symbolic link, so that the link stays.
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  const std::string place = error ? path : target.string(), unfinished = place + ".new";
  const auto failed = [&](const std::string& what) {
    const Status why(StatusCode::kPermissionDenied,
                     "cannot write " + what + ": " + strerror(errno) + "; the certificate stays as it was");
    unlink(unfinished.c_str());
    return why;
  };
  struct stat before {};
  if (stat(place.c_str(), &before) != 0) return failed(place);
  unlink(unfinished.c_str());
  const UniqueFd file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return failed(unfinished);
  const bool is_others = before.st_uid != geteuid() || before.st_gid != getegid();
  if (is_others && fchown(file.get(), before.st_uid, before.st_gid) != 0) return failed(unfinished);
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(file.get()) != 0 ||
      rename(unfinished.c_str(), place.c_str()) != 0) {
    return failed(place);
  }
  const UniqueFd directory(open(std::filesystem::path(place).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) fsync(directory.get());
  return Status::Ok();
}

}  // namespace

bool IsToRenew(const CertificateDescription& certificate, time_t now) {
  return now < certificate.ends && certificate.ends - now <= (certificate.ends - certificate.begins) / 3;
}

Result<CertificateDescription> DescribeOwnCertificate(const KeyFiles& keys,
                                                      const std::function<Result<UniqueFd>(const std::string& path)>& open_file) {
  const std::string path = LocateKeyFiles(TlsRole::kClient, keys).certificate;
  if (!open_file) return DescribeCertificateFile(path);
  Result<UniqueFd> file = open_file(path);
  if (!file.ok()) return file.status();
  Result<std::string> text = ReadSmallFile(*file, path, kPemBytesMax);
  if (!text.ok()) return text.status();
  Result<CertificateDescription> description = DescribeCertificateText(*text);
  if (description.ok()) return description;
  return Status(StatusCode::kInvalidArgument, path + " holds no certificate in PEM form: give another file");
}

Status ReplaceCertificate(const std::string& path, const std::string& text) {
  const auto is_of_pem = [](char letter) { return letter == '\n' || letter == '\r' || (letter >= ' ' && letter <= '~'); };
  const bool looks_right = text.starts_with(kPemBegin) && text.size() <= kPemBytesMax && std::ranges::all_of(text, is_of_pem);
  if (!looks_right) return Status(StatusCode::kInvalidArgument, "what is to be written to " + path + " is no certificate");
  return Replace(path, text);
}

Result<CertificateDescription> RenewCertificate(const std::string& url, const KeyFiles& keys, uint64_t wait_ns,
                                                const RpcMeans& means,
                                                const std::function<Status(const std::string& text)>& replace) {
  if (!url.starts_with("tls://")) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + Printable(url) + "' is no place where a certificate is shown: ask at the placer's tls://HOST:PORT");
  }
  const KeyFiles files = LocateKeyFiles(TlsRole::kClient, keys);
  LinkOptions link;
  link.open_file = means.open_file;
  Result<KeyTexts> texts = ReadKeyFiles(TlsRole::kClient, files, link);
  if (!texts.ok()) return texts.status();
  Result<CertificateDescription> before = DescribeOwnCertificate(files, means.open_file);
  if (!before.ok()) return before.status();
  Result<std::string> request = MakeSigningRequest(texts->key, before->name);
  if (!request.ok()) return Status(request.status().code(), files.key + ": " + request.status().message());
  Result<std::string> answer = Ask(url, files, *request, wait_ns, means);
  if (!answer.ok()) return answer.status();

  texts->certificate = *answer;
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Make(TlsRole::kClient, files, *texts);
  const CertificateDescription now = identity.ok() ? (*identity)->own() : CertificateDescription();
  const bool is_same = now.name == before->name && now.names == before->names && now.for_servers == before->for_servers &&
                       now.for_clients == before->for_clients && now.ends > before->ends;
  if (!is_same) {
    return Status(StatusCode::kProtocolViolation,
                  "the placer has sent a certificate that does not take the place of " + files.certificate +
                      (identity.ok() ? ": it is for something else" : ": " + identity.status().message()));
  }
  RETURN_IF_ERROR(replace ? replace(*answer) : ReplaceCertificate(files.certificate, *answer));
  return now;
}

}  // namespace tessera
