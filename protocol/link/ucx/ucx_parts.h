// Shared by ucx_link.cc, ucx_frames.cc, ucx_connection.cc and ucx_listener.cc alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tcp/tcp_endpoint.h"
#include "protocol/link/ucx/ucx_flow.h"
#include "protocol/link/ucx/ucx_memory.h"
#include "protocol/link/ucx/ucx_worker.h"

namespace tessera {

// The numbers are part of the protocol.
enum class UcxMessageKind : uint32_t {
  kHello = 1,    // the first message of either end: `version` of the link, number kUcxMagic; the connecting end sends it first
  kFrame = 2,    // `frame`, the `number`th from 0; its payload comes along
  kTaken = 3,    // Receive() took `number` frames of frame.position bytes: so much room is free again
  kEnd = 4,      // the last message of this end: it has sent `number` frames
  kEndSeen = 5,  // all frames before the other end's kEnd are here
  kAlive = 6,    // this end is there; every UcxWorker::kTickNs
};

// The header of every active message; little-endian.
struct UcxMessage {
  UcxMessageKind kind = UcxMessageKind::kHello;
  uint32_t version = 0;
  uint64_t number = 0;
  FrameHeader frame;
};
static_assert(sizeof(UcxMessage) == 48);

inline constexpr unsigned kUcxMessageId = 1;              // of active messages, to UCX
inline constexpr uint64_t kUcxMagic = 0x584355'4b4e4c54;  // "TLNKUCX"

// Ok if the sender of `hello` is a tessera of this version. `who`: "gateway", "client", for the message.
Status CheckUcxHello(const char* who, const UcxMessage& hello);

// As Resolve(), but of IPv4 alone: UCX 1.13 writes beyond its memory for IPv6 addresses over TCP. kUnsupported when there is
// no such address.
Result<std::vector<TcpEndpoint>> ResolveForUcx(const LinkAddress& address);
// The way to these addresses of one host.
UcxReach ReachOf(const std::vector<TcpEndpoint>& endpoints);
inline ucs_sock_addr_t UcxAddressOf(const TcpEndpoint& endpoint) { return {endpoint.get(), endpoint.length}; }

// One end. Beyond Link it has what makes the connection.
class UcxLink : public Link {
 public:
  static Result<std::unique_ptr<UcxLink>> Make(UcxReach reach);
  ~UcxLink() override;

  // Begins to connect to what `params` name: an address, or a connection's request. Adds what it takes to notice the peer's end.
  // With UcxWorker::Hold.
  ucs_status_t Start(ucp_ep_params_t params);
  void SayHello();
  // Waits for the other end's hello. kTimedOut at the deadline or when `given_up` is true; else the reason why the connection is
  // lost.
  Result<UcxMessage> AwaitHello(uint64_t deadline_ns, const std::function<bool()>& given_up);
  // How the connection was lost, as UCX has it; UCS_OK when it is not.
  ucs_status_t lost_status();
  // The transport and the device, for logs: "rc_verbs/mlx5_0:1".
  std::string DescribeTransport();
  UcxWorker& worker() { return *worker_; }

  Status Send(const FrameHeader& header, std::span<const std::byte> payload) override;
  Result<FrameHeader> Receive(const Place& place) override;
  void Close() override;
  void Register(std::span<std::byte> memory) override { registrations_.Register(*worker_, memory); }
  void Forget(std::span<std::byte> memory) override { registrations_.Forget(memory); }

 private:
  // A message on its way.
  struct Outgoing;

  UcxLink(std::unique_ptr<UcxWorker> worker, std::shared_ptr<const UcxRegistration> buffer, std::span<std::byte> buffer_memory);

  // UCX's callbacks; the lock is held.
  static ucs_status_t OnMessage(void* link, const void* header, size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* outgoing);
  static void OnReceived(void* request, ucs_status_t status, size_t bytes, void* link);
  static void OnLost(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static void OnEndpointClosed(void* request, ucs_status_t status, void* link);

  // All with the lock held.
  ucs_status_t Arrived(const UcxMessage& message, const UcxInbox::Frame& frame);
  void Post(std::unique_ptr<Outgoing> outgoing, std::span<const std::byte> payload);
  void PostMessage(UcxMessageKind kind, uint64_t number, uint64_t position = 0);
  void Sent(std::unique_ptr<Outgoing> outgoing, ucs_status_t status);
  void AnswerEnd();
  void Tick();  // says that this end is there, looks whether the other has done so
  void ReportTaken();
  void Lose(Status why);
  void Abandon();  // gives up the endpoint: what is unfinished fails
  bool Over() const { return closed_ || lost_.has_value() || peer_sent_.has_value(); }
  Status WhyOver() const;
  bool HasRoom(uint64_t bytes) const;

  // Without it. Waits until `done`, for an operation that still refers to memory. The end of the link hurries it.
  void Finish(AdaptiveSpin& spin, const bool& done);
  Status Fetch(const UcxInbox::Frame& frame, std::span<std::byte> to);

  const std::shared_ptr<const UcxRegistration> buffer_registration_;  // the memory of buffer_
  UcxRegistrations registrations_;

  std::unique_ptr<UcxWorker> worker_;
  AdaptiveSpin send_spin_, receive_spin_;

  // With the lock of worker_ held, also by UCX's callbacks.
  ucp_ep_h endpoint_ = nullptr;
  bool endpoint_closing_ = false;
  int outgoing_ = 0;  // messages that UCX has not finished
  std::optional<UcxMessage> hello_;
  std::optional<Status> lost_;
  ucs_status_t lost_status_ = UCS_OK;
  bool closed_ = false;
  uint64_t closed_ns_ = 0;
  uint64_t heard_ns_ = 0;  // when the last message came

  UcxSendBuffer buffer_;
  uint64_t sent_ = 0, sent_bytes_ = 0;          // frames and their bytes, since the beginning
  uint64_t released_ = 0, released_bytes_ = 0;  // those that the other end has taken
  bool end_seen_ = false;                       // by the other end, of ours

  UcxInbox inbox_;
  std::optional<uint64_t> peer_sent_;  // frames in all, once it has ended
  bool end_answered_ = false;
  uint64_t reported_ = 0, reported_bytes_ = 0;  // taken, as the other end was told
  bool received_ = false;                       // the payload that Fetch waits for
  ucs_status_t received_status_ = UCS_OK;
};

}  // namespace tessera
