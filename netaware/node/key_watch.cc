#include "netaware/node/key_watch.h"

#include <poll.h>

#include <ctime>
#include <thread>

#include "netaware/identity/key_renewal.h"
#include "netaware/node/patience.h"
#include "protocol/base/log.h"
#include "protocol/link/tls/key_files.h"
#include "protocol/link/tls/tls_certificate.h"

namespace tessera {
namespace {

[[noreturn]] void Watch(const std::string& url, const KeyFiles& keys, const NodeMeans& means) {
  const std::string path = LocateKeyFiles(TlsRole::kClient, keys).certificate;
  Patience patience;
  for (;;) {
    int wait_ms = KeyWatch::kLookMs;
    Result<CertificateDescription> own = DescribeOwnCertificate(keys, means.placer.open_file);
    // One that cannot be read is told of by whoever connects with it.
    if (own.ok() && IsToRenew(*own, time(nullptr))) {
      Result<CertificateDescription> now =
          RenewCertificate(url, keys, KeyWatch::kWaitNs, means.placer, means.replace_certificate);
      if (now.ok()) {
        LogInfo("the placer has signed a new certificate {}: {}, until {}", path, now->name, DescribeTime(now->ends));
        patience.Reset();
      } else {
        wait_ms = KeyWatch::kAgainMs;
        if (patience.IsNews(now.status().message())) {
          LogWarning("the certificate {} ends at {} and is not renewed: {}; it is tried again and again", path,
                     DescribeTime(own->ends), now.status().message());
        }
      }
    }
    poll(nullptr, 0, wait_ms);
  }
}

}  // namespace

void KeyWatch::Start(const std::string& url, const KeyFiles& keys, const NodeMeans& means) {
  if (url.starts_with("tls://")) std::thread([url, keys, means] { Watch(url, keys, means); }).detach();
}

}  // namespace tessera
