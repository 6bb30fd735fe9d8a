#include "protocol/link/tls/tls_words.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cctype>
#include <ctime>

#include "protocol/base/printable.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

Status Denied(std::string sentence) { return Status(StatusCode::kPermissionDenied, std::move(sentence)); }

std::string Quoted(const std::string& name) { return "'" + Printable(name) + "'"; }

std::string Joined(const std::vector<std::string>& names) {
  constexpr size_t kNamesMax = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamesMax; ++i) text += (text.empty() ? "" : ", ") + Printable(names[i]);
  if (names.size() > kNamesMax) text += " and others";
  return text.empty() ? "no host" : text;
}

// A name in a command that people may copy: nothing of a stranger's that a shell could take for something else.
std::string Word(const std::string& name) {
  const auto plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '.' || letter == '-' || letter == '_' || letter == ':' || letter == '@';
  };
  return !name.empty() && name.front() != '-' && name.size() <= 64 && std::all_of(name.begin(), name.end(), plain) ? name
                                                                                                                   : "NAME";
}

// Ours, as the user knows it: "the certificate /etc/tessera/certificate.pem ('gpu7')".
std::string Ours(const TlsParties& parties) {
  return "the certificate " + parties.us.files().certificate + " (" + Quoted(parties.us.own().name) + ")";
}

// The command that makes a certificate for a side of this kind.
std::string Make(bool for_client, const std::string& name) {
  return std::string("'tessera keys ") + (for_client ? "client " : "server ") + Word(name) + "'";
}

}  // namespace

std::string TlsParties::Peer() const { return client() ? "the " + std::string(what) + " at " + address->Url() : "the peer"; }

Status DescribeRefusedCertificate(const TlsParties& parties, int error, const CertificateDescription& failed,
                                  const CertificateDescription& leaf) {
  const bool peer_is_client = !parties.client();
  const std::string theirs = "the certificate " + Quoted(failed.name) + " of " + parties.Peer();
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Denied(theirs + " has expired (" + DescribeTime(failed.ends) + "): make a new one with " +
                    Make(peer_is_client, leaf.name) + ", or correct this host's clock");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Denied(theirs + " is not valid before " + DescribeTime(failed.begins) +
                    ": correct the clocks of both hosts, or wait");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Denied(theirs + " is for " + Joined(leaf.names) + " and not for " +
                    (parties.client() ? parties.address->host : "this name") +
                    ": write a name that it is for into the address, or make one with " +
                    Make(peer_is_client, parties.client() ? parties.address->host : ""));
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return Denied(theirs + " was signed by " + failed.IssuerText() + ", an authority that " + parties.us.files().authority +
                    " does not have (it has " + parties.us.authorities() +
                    "): use certificates of one authority on both sides, or add its certificate to that file");
    case X509_V_ERR_INVALID_PURPOSE:
      return Denied(theirs + " is not one for " + (peer_is_client ? "clients" : "servers") + ": make one with " +
                    Make(peer_is_client, leaf.name));
    default:
      return Denied(theirs + " cannot be accepted (" + X509_verify_cert_error_string(error) + "): make a new one with " +
                    Make(peer_is_client, leaf.name));
  }
}

Status DescribeNotAllowed(const CertificateDescription& peer) {
  if (!IsNameHolder(NameHolder(peer.name)))
    return Denied("the certificate has no name, or none that can be shown: make one with 'tessera keys client NAME'");
  return Denied(Quoted(peer.name) + " is not allowed here: start the gateway with '--allow " + Word(peer.name) +
                "' as well, if it should be");
}

Status DescribeAlert(const TlsParties& parties, int alert) {
  const CertificateDescription& own = parties.us.own();
  const std::string says = parties.Peer() + " does not accept " + Ours(parties) + ": ";
  const std::string again = Make(parties.client(), own.name);
  switch (alert) {
    case SSL_AD_CERTIFICATE_EXPIRED:
      return Denied(says + "it has expired (" + DescribeTime(own.ends) + ") by the clock there; make a new one with " + again +
                    ", or correct that clock");
    case SSL_AD_BAD_CERTIFICATE:
      if (own.begins > time(nullptr)) {
        return Denied(says + "it is not valid before " + DescribeTime(own.begins) +
                      "; correct the clocks of both hosts, or wait");
      }
      if (!parties.client()) {
        return Denied(says + "it is for " + Joined(own.names) +
                      ", and the peer wrote another name into its address (or its clock is before " + DescribeTime(own.begins) +
                      "); make one for that name with " + Make(false, ""));
      }
      return Denied(says + "by the clock there it is not valid before " + DescribeTime(own.begins) +
                    ", or it is damaged; correct that clock, or make a new one with " + again);
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_DECRYPT_ERROR:
      return Denied(says + "its authority " + own.IssuerText() +
                    " is not known there; use certificates of one authority on both sides, or add its "
                    "certificate to --authority there");
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
      return Denied(says + "it is not one for " + (parties.client() ? "clients" : "servers") + "; make one with " + again);
    case SSL_AD_CERTIFICATE_REQUIRED:
      return Denied(parties.Peer() + " wants to see a certificate and got none: make one with " + again);
    case SSL_AD_ACCESS_DENIED:
      return Denied(parties.Peer() + " does not allow " + Quoted(own.name) + ", whom " + Ours(parties) +
                    " names: ask for '--allow " + Word(own.name) + "' there");
    case SSL_AD_PROTOCOL_VERSION:
      return Status(StatusCode::kVersionMismatch,
                    parties.Peer() + " speaks no TLS 1.3: install the same release of tessera on both sides");
    default: {
      const char* words = SSL_alert_desc_string_long(alert);
      return Status(StatusCode::kProtocolViolation, parties.Peer() + " ended the connection (TLS alert " + std::to_string(alert) +
                                                        ", " + (words != nullptr ? words : "unknown") + "): look into its log");
    }
  }
}

Status DescribeFailedHandshake(const TlsParties& parties, int reason) {
  // OpenSSL's reasons for alerts of the peer begin here.
  if (reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256)
    return DescribeAlert(parties, reason - SSL_AD_REASON_OFFSET);
  switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION: return DescribeAlert(parties, SSL_AD_PROTOCOL_VERSION);
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return Denied(parties.Peer() + " has shown no certificate: give it one that the authority " + parties.us.files().authority +
                    " has signed (" + Make(true, "") + ")");
    case SSL_R_NO_SHARED_CIPHER:
      return Status(StatusCode::kProtocolViolation,
                    parties.Peer() + " knows no cipher that this side uses: install the same release of tessera on both sides");
    default: {
      const char* words = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
      const std::string why = words == nullptr ? "" : std::string(" (") + words + ")";
      if (!parties.client())
        return Status(StatusCode::kProtocolViolation, "the peer is no tessera: what it sent is no TLS 1.3" + why);
      return Status(StatusCode::kProtocolViolation, "whoever listens at " + parties.address->Url() + " is no " + parties.program +
                                                        ": what it sent is no TLS 1.3" + why + "; correct the address");
    }
  }
}

}  // namespace tessera
