// The calls of IdentityService (protocol/control/identity.proto). Any thread of gRPC.
#pragma once

#include "generated/control/identity.grpc.pb.h"
#include "netaware/service/certificate_signer.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "protocol/rpc/rpc_connections.h"

namespace tessera {

class IdentityCalls : public control::v1::IdentityService::CallbackService {
 public:
  // All of them live as long as the server. `signer` null: nothing is signed.
  IdentityCalls(PlacerLoop& loop, RolesFile& roles, RpcConnections& connections, CertificateSigner* signer)
      : loop_(loop), roles_(roles), connections_(connections), signer_(signer) {}

  grpc::ServerUnaryReactor* RenewCertificate(grpc::CallbackServerContext* context,
                                             const control::v1::RenewCertificateRequest* request,
                                             control::v1::RenewedCertificate* renewed) override;

 private:
  Result<CertificateSigner::Signed> Sign(const std::string& peer, const std::string& holder, const std::string& request);

  PlacerLoop& loop_;
  RolesFile& roles_;
  RpcConnections& connections_;
  CertificateSigner* const signer_;
};

}  // namespace tessera
