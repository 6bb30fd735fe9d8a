#include "netaware/service/ticket_signer_of.h"

#include <optional>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr const char* kKey = "ticket-key";

}  // namespace

Result<TicketSigner> TicketSignerOf(Store& store) {
  if (const std::optional<StoreEntry> kept = store.Get(kKey)) {
    Result<TicketSigner> signer = TicketSigner::FromPem(kept->value);
    if (signer.ok()) return signer;
    return Status(StatusCode::kInvalidArgument, "the key for tickets in the store is damaged: restore the store from a copy");
  }
  Result<TicketSigner> signer = TicketSigner::Make();
  if (!signer.ok()) return signer;
  const StoreTransaction keep{.compares = {{kKey, 0}}, .changes = {{kKey, signer->PrivatePem()}}};
  const std::vector<StoreResult> results = store.Commit({&keep, 1});
  if (results[0].outcome != StoreResult::Outcome::kDone)
    return Status(StatusCode::kResourceExhausted, "the key for tickets cannot be kept: " + results[0].reason);
  return signer;
}

}  // namespace tessera
