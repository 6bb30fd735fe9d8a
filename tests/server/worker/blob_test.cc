// Images on their way into a worker, when there is no memory for them: a load fails, the session goes on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <vector>

#include "generated/messages/module.h"
#include "generated/messages/service.h"
#include "generated/mock/recording_table.h"
#include "protocol/wire/encoder.h"
#include "server/images/image_cache.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr size_t kPieces = 4;

// Has nothing, and so wants everything.
class EmptyCache : public ImageCache {
 public:
  Result<UniqueFd> Find(const ImageKey&, uint64_t) override { return Status(StatusCode::kNotFound, "no such image"); }
  void Offer(const ImageKey&, uint64_t, int) override {}
};

// Files grow no further than this while it lives; the file of an image stands for the machine's memory.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

class BlobTest : public testing::Test {
 protected:
  BlobTest() {
    options_.images = &cache_;
    client_ = std::make_unique<TestClient>(driver_, ChannelSizes{}, options_);
  }

  // The result of a call with this message; -1 when the session has ended.
  template <typename Request>
  int ResultOf(const Request& request) {
    Encoder encoder;
    request.Encode(encoder);
    client_->Send(Request::kId, kWantsReply, 1, {}, encoder.bytes());
    const std::optional<TestReply> reply = client_->Next();
    return reply.has_value() ? static_cast<int>(reply->header.result) : -1;
  }

  void Name(uint64_t blob) {
    const ImageKey key{};
    tesseraBlobNameRequest request;
    request.blob = blob;
    request.total_bytes = kPieces * kPieceBytes;
    request.key = key.bytes;
    EXPECT_EQ(ResultOf(request), CUDA_SUCCESS);
  }
  void Write(uint64_t blob, size_t piece) {
    tesseraBlobWriteRequest request;
    request.blob = blob;
    request.offset = piece * kPieceBytes;
    request.total_bytes = kPieces * kPieceBytes;
    request.data = bytes_;
    EXPECT_EQ(ResultOf(request), CUDA_SUCCESS) << piece;
  }
  int Load(uint64_t blob) {
    cuModuleLoadDataRequest request;
    request.module = HandleId::Of(0, HandleKind::kModule, 1, ++modules_);
    *request.blobs.Allocate(1) = blob;
    return ResultOf(request);
  }

  const std::vector<std::byte> bytes_ = std::vector<std::byte>(kPieceBytes, std::byte{'x'});
  const DriverTable driver_ = MakeRecordingTable([](int) { return CUDA_SUCCESS; });
  EmptyCache cache_;
  WorkerOptions options_;
  std::unique_ptr<TestClient> client_;
  uint32_t modules_ = 0;
};

TEST_F(BlobTest, AnImageIsLoaded) {
  Name(1);
  for (size_t piece = 0; piece < kPieces; ++piece) Write(1, piece);
  EXPECT_EQ(Load(1), CUDA_SUCCESS);
  EXPECT_EQ(Load(1), -1) << "it was taken: a client that names it again is none of ours";
}

TEST_F(BlobTest, WithoutMemoryForAPieceTheLoadFailsAndTheSessionGoesOn) {
  Name(1);
  Write(1, 0);
  {
    const FileLimit limit(kPieceBytes);
    Write(1, 1);
  }
  Write(1, 2);
  Write(1, 3);
  EXPECT_EQ(Load(1), CUDA_ERROR_OUT_OF_MEMORY);
  // The same number again, with memory for it.
  Name(1);
  for (size_t piece = 0; piece < kPieces; ++piece) Write(1, piece);
  EXPECT_EQ(Load(1), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tessera
