#include "netaware/service/identity_calls.h"

#include <ctime>
#include <optional>
#include <utility>

#include "netaware/service/pool_messages.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr const char* kAction = "sign";

}  // namespace

Result<CertificateSigner::Signed> IdentityCalls::Sign(const std::string& peer, const std::string& holder,
                                                      const std::string& request) {
  const auto denied = [](std::string why) { return Status(StatusCode::kPermissionDenied, std::move(why)); };
  if (signer_ == nullptr)
    return denied("this placer signs no certificates: it was started without --sign-with; ask whoever runs it for a new one");
  const std::optional<CertificateDescription> shown = connections_.ShownBy(peer);
  if (!shown) return denied("no certificate was shown that could be renewed: ask at the placer's tls:// address");
  if (roles_.Current()->RoleOf(holder) == Role::kNobody)
    return denied(holder + " has no role at this placer: ask whoever runs it (tessera-placer --policy)");
  return signer_->Sign(*shown, request, time(nullptr));
}

grpc::ServerUnaryReactor* IdentityCalls::RenewCertificate(grpc::CallbackServerContext* context,
                                                          const control::v1::RenewCertificateRequest* request,
                                                          control::v1::RenewedCertificate* renewed) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const std::string holder = connections_.HolderOf(context->peer());
  Result<CertificateSigner::Signed> made = Sign(context->peer(), holder, request->request());
  AuditRecord record{.actor = holder.empty() ? "somebody who cannot be told" : holder, .action = kAction, .holder = holder};
  if (!made.ok()) {
    record.outcome = AuditRecord::kRefused;
    record.text = made.status().message();
    loop_.Post({PlacerWork::kQuestion, holder}, [record](PlacerCore& core, int64_t now_ms) { core.Note(record, now_ms); });
    reactor->Finish(GrpcStatusOf(made.status()));
    return reactor;
  }
  record.text = "a certificate until " + DescribeTime(made->ends) + ", serial " + made->serial;
  loop_.Post(
      {PlacerWork::kHas, holder}, [this, reactor, renewed, record, made = std::move(*made)](PlacerCore&, int64_t now_ms) mutable {
        record.time_ms = now_ms;
        StoreTransaction kept;
        kept.records.push_back(StoredAudit(record));
        loop_.Write(std::move(kept), [reactor, renewed, made = std::move(made)](const StoreResult& result) {
          if (result.outcome != StoreResult::Outcome::kDone) {
            // A certificate is sent only if its record is stored.
            return reactor->Finish({grpc::StatusCode::UNAVAILABLE, "the placer's store keeps nothing now: ask again later"});
          }
          renewed->set_certificate(made.certificate);
          renewed->set_ends_s(made.ends);
          reactor->Finish(grpc::Status::OK);
        });
      });
  return reactor;
}

}  // namespace tessera
