#include "server/broker/metrics/metrics_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "server/broker/metrics/http_request.h"
#include "server/broker/metrics/metrics_text.h"

namespace tessera {
namespace {

constexpr int kShortageMs = 100;

struct Connection {
  UniqueFd socket;
  int64_t until_ns;
  std::string request{};
  std::string answer{};  // empty: the request has not ended
  size_t sent = 0;
};

class Front {
 public:
  Front(UniqueFd listener, MetricsBoard& board, uint64_t restarts)
      : listener_(std::move(listener)), board_(board), restarts_(restarts) {}

  void Run() {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + MetricsServer::kNice);
    for (;;) {
      std::vector<pollfd> ready = {{listener_.get(), POLLIN, 0}};
      for (const Connection& each : connections_) {
        ready.push_back({each.socket.get(), static_cast<short>(each.answer.empty() ? POLLIN : POLLOUT), 0});
      }
      poll(ready.data(), ready.size(), TimeoutMs());
      const auto now_ns = static_cast<int64_t>(MonotonicNs());
      size_t i = 0;
      std::erase_if(connections_, [&](Connection& each) {
        const bool is_ready = ready[++i].revents != 0;
        return (is_ready && !GoOn(each)) || now_ns >= each.until_ns;
      });
      if (ready[0].revents != 0) Accept(now_ns);
    }
  }

 private:
  // Until the first of them has taken too long.
  int TimeoutMs() const {
    if (connections_.empty()) return -1;
    const int64_t left_ns = connections_.front().until_ns - static_cast<int64_t>(MonotonicNs());
    return static_cast<int>(std::max<int64_t>(left_ns, 0) / 1'000'000 + 1);
  }

  void Accept(int64_t now_ns) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // Without descriptors it would be asked again and again.
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) poll(nullptr, 0, kShortageMs);
      return;
    }
    if (connections_.size() == MetricsServer::kConnectionsMax) connections_.pop_front();
    connections_.push_back({std::move(socket), now_ns + MetricsServer::kAnswerNs});
  }

  // False: it is over.
  bool GoOn(Connection& connection) { return connection.answer.empty() ? Read(connection) : Write(connection); }

  bool Read(Connection& connection) {
    char bytes[kHttpRequestBytesMax];
    const ssize_t got = recv(connection.socket.get(), bytes, kHttpRequestBytesMax - connection.request.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection.request.append(bytes, static_cast<size_t>(got));
    const HttpNeed need = ReadHttpRequest(connection.request);
    if (need == HttpNeed::kMore) return true;
    connection.answer = HttpAnswer(need, Text());
    return Write(connection);
  }

  bool Write(Connection& connection) {
    const ssize_t put = send(connection.socket.get(), connection.answer.data() + connection.sent,
                             connection.answer.size() - connection.sent, MSG_NOSIGNAL);
    if (put < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<size_t>(put);
    if (connection.sent < connection.answer.size()) return true;
    shutdown(connection.socket.get(), SHUT_WR);
    return false;
  }

  // Made once for what was published once.
  const std::string& Text() {
    const std::shared_ptr<const Metrics> last = board_.last();
    if (last == nullptr || last == told_) return text_;
    text_ = MetricsText(*last, told_.get(), restarts_);
    told_ = last;
    return text_;
  }

  const UniqueFd listener_;
  MetricsBoard& board_;
  const uint64_t restarts_;
  std::deque<Connection> connections_;  // the oldest first
  std::shared_ptr<const Metrics> told_;
  std::string text_;
};

}  // namespace

Status MetricsServer::Start(UniqueFd listener, MetricsBoard& board, uint64_t restarts) {
  Front* const front = new Front(std::move(listener), board, restarts);  // as long as the process
  try {
    std::thread([front] { front->Run(); }).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread for metrics", error.code().value());
  }
  return Status::Ok();
}

}  // namespace tessera
