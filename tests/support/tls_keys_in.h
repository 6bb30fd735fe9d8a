// An authority of a test, and certificates that it signs, as files in a directory that goes with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "protocol/link/link_options.h"
#include "protocol/link/tls/tls_keys.h"

namespace tessera {

inline constexpr time_t kHourS = 3600;

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "Test authority") {
    char pattern[] = "/tmp/tessera-keys-XXXXXX";
    directory_ = mkdtemp(pattern);
    Result<PemPair> made = MakeAuthority(name, time(nullptr) - kHourS, time(nullptr) + kHourS);
    EXPECT_TRUE(made.ok()) << made.status().message();
    pair_ = *made;
    Write("authority.pem", pair_.certificate);
  }
  ~TestAuthority() { std::filesystem::remove_all(directory_); }
  TestAuthority(const TestAuthority&) = delete;

  // What a test that does not look at it needs.
  LinkOptions Client(const std::string& name = "alice") const { return Sign(RequestOf(name, false)); }
  LinkOptions Server(const std::string& name = "gpu7") const { return Sign(RequestOf(name, true)); }

  static CertificateRequest RequestOf(const std::string& name, bool server) {
    CertificateRequest request{.name = name,
                               .names = {},
                               .server = server,
                               .client = !server,
                               .begins = time(nullptr) - kHourS,
                               .ends = time(nullptr) + kHourS};
    if (server) request.names = {"localhost", "127.0.0.1", "::1"};
    return request;
  }
  // Writes a new certificate and its key, and says where they are.
  LinkOptions Sign(const CertificateRequest& request) const {
    Result<PemPair> made = SignCertificate(pair_, request);
    EXPECT_TRUE(made.ok()) << made.status().message();
    LinkOptions options;
    options.keys = {Write(request.name + ".pem", made->certificate), Write(request.name + ".key", made->key),
                    directory_ + "/authority.pem"};
    return options;
  }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), 0600);
    return path;
  }
  const PemPair& pair() const { return pair_; }
  std::string path() const { return directory_ + "/authority.pem"; }

 private:
  std::string directory_;
  PemPair pair_;
};

}  // namespace tessera
