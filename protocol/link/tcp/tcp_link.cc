// Frames on a TCP connection. How a connection comes about is in tcp_connection.cc.
#include "protocol/link/tcp/tcp_link.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "protocol/link/stream_link.h"
#include "protocol/link/tcp/tcp_stream.h"

namespace tessera {
namespace {

// What is read ahead of what is wanted: many small frames with one system call. Behind a large payload it is no more than the
// next header and a small payload, since what follows there is large as a rule, and should go straight to its place.
constexpr size_t kReadAheadBytes = size_t{64} << 10;
constexpr size_t kReadAheadOfBulkBytes = size_t{1} << 10;
constexpr size_t kBulkBytesMin = size_t{32} << 10;

class TcpLink : public StreamLink {
 public:
  explicit TcpLink(std::unique_ptr<TcpStream> stream) : stream_(std::move(stream)), ahead_(kReadAheadBytes) {}
  ~TcpLink() override { Close(); }

  void Close() override {
    stream_->Stop();
    stream_->EndSending();
  }
  void Drop() override { stream_->Drop(); }

 private:
  Status Write(std::span<const std::byte> first, std::span<const std::byte> second) override;
  Status Fill(std::span<std::byte> to) override;

  const std::unique_ptr<TcpStream> stream_;

  // Of the receiving thread.
  std::vector<std::byte> ahead_;
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  bool bulk_ = false;  // the last payload was large
};

Status TcpLink::Write(std::span<const std::byte> first, std::span<const std::byte> second) {
  iovec parts[2] = {{const_cast<std::byte*>(first.data()), first.size()}, {const_cast<std::byte*>(second.data()), second.size()}};
  const Status sent = stream_->Send(parts);
  if (!sent.ok()) Close();  // half a frame may be on its way: nothing can follow
  return sent;
}

Status TcpLink::Fill(std::span<std::byte> to) {
  // A header says nothing; the payload that follows it does.
  if (to.size() != sizeof(FrameHeader)) bulk_ = to.size() >= kBulkBytesMin;
  while (!to.empty()) {
    if (ahead_begin_ != ahead_end_) {
      const size_t bytes = std::min(to.size(), ahead_end_ - ahead_begin_);
      std::memcpy(to.data(), ahead_.data() + ahead_begin_, bytes);
      ahead_begin_ += bytes;
      to = to.subspan(bytes);
      continue;
    }
    iovec parts[2] = {{to.data(), to.size()}, {ahead_.data(), bulk_ ? kReadAheadOfBulkBytes : kReadAheadBytes}};
    Result<size_t> got = stream_->Receive(parts);
    if (!got.ok()) return got.status();
    const size_t here = std::min(*got, to.size());
    ahead_begin_ = 0;
    ahead_end_ = *got - here;
    to = to.subspan(here);
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Link>> MakeTcpLink(UniqueFd socket) {
  Result<std::unique_ptr<TcpStream>> stream = TcpStream::Make(std::move(socket));
  if (!stream.ok()) return stream.status();
  return std::unique_ptr<Link>(std::make_unique<TcpLink>(std::move(*stream)));
}

}  // namespace tessera
