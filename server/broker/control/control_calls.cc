#include "server/broker/control/control_calls.h"

#include <grpcpp/support/async_unary_call.h>

#include <algorithm>
#include <utility>

#include "protocol/wire/holder.h"
#include "server/broker/control/vgpu_messages.h"

namespace tessera {
namespace {

// A call with one answer. It is its own until that has been sent.
template <typename Request, typename Response>
class UnaryCall : public WaitingCall, public GrpcEvent, public std::enable_shared_from_this<UnaryCall<Request, Response>> {
 public:
  using Method = void (ControlCalls::Service::*)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                                                 grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);
  // Waits for the next such call.
  static void Await(ControlCalls& calls, ControlCalls::Lane& lane, Method method) {
    const auto call = std::make_shared<UnaryCall>(calls, lane, method);
    call->self_ = call;
    (lane.service().*method)(&call->context_, &call->request_, &call->writer_, lane.completions(), lane.completions(),
                             call->tag());
  }

  UnaryCall(ControlCalls& calls, ControlCalls::Lane& lane, Method method)
      : calls_(calls), lane_(lane), method_(method), writer_(&context_) {}

  void Happened(bool ok) override {
    if (began_ || !ok) {
      self_.reset();
      return;
    }
    began_ = true;
    Await(calls_, lane_, method_);
    if (calls_.Send(this->shared_from_this(), CallOf(request_, calls_.HolderOf(context_)))) return;
    Answer({CallCode::kUnavailable, "too many calls wait at this server: try again", {}});
  }
  void Answer(const VgpuAnswer& answer) override {
    Response response;
    FillIn(answer, &response);
    writer_.Finish(response, GrpcStatusOf(answer), tag());
  }

 private:
  // What Lane::TendOne() gets back.
  GrpcEvent* tag() { return this; }

  ControlCalls& calls_;
  ControlCalls::Lane& lane_;
  const Method method_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
  std::shared_ptr<UnaryCall> self_;
  bool began_ = false;
};

}  // namespace

ControlCalls::Lane::Lane(grpc::ServerBuilder& builder) {
  builder.RegisterService(&service_);
  completions_ = builder.AddCompletionQueue();
}

void ControlCalls::Lane::TendOne() {
  void* event = nullptr;
  bool ok = false;
  if (completions_->Next(&event, &ok)) static_cast<GrpcEvent*>(event)->Happened(ok);
}

void ControlCalls::Begin(Lane& lane) {
  using control::v1::Vgpu;
  UnaryCall<control::v1::CreateRequest, Vgpu>::Await(*this, lane, &Service::RequestCreate);
  UnaryCall<control::v1::UpdateRequest, Vgpu>::Await(*this, lane, &Service::RequestUpdate);
  UnaryCall<control::v1::DeleteRequest, Vgpu>::Await(*this, lane, &Service::RequestDelete);
  UnaryCall<control::v1::ImportRequest, control::v1::VgpuList>::Await(*this, lane, &Service::RequestImport);
  UnaryCall<control::v1::GetRequest, Vgpu>::Await(*this, lane, &Service::RequestGet);
  UnaryCall<control::v1::ListRequest, control::v1::VgpuList>::Await(*this, lane, &Service::RequestList);
}

bool ControlCalls::IsAdministrator(std::string_view holder) const {
  return std::ranges::find(administrators_, holder) != administrators_.end();
}

bool ControlCalls::Send(const std::shared_ptr<WaitingCall>& call, VgpuCall what) {
  if (what.holder.empty()) what.holder = kAnonymousHolder;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    if (!IsAdministrator(what.holder)) {
      size_t of_holder = 0, in_all = 0;
      for (const auto& [other, waiting] : waiting_) {
        if (IsAdministrator(waiting.what.holder)) continue;
        ++in_all;
        if (waiting.what.holder == what.holder) ++of_holder;
      }
      if (of_holder >= kWaiting.of_holder || in_all >= kWaiting.in_all) return false;
    }
    number = ++last_number_;
    waiting_[number] = {call, what};
  }
  if (queue_.Push(number, std::move(what))) return true;
  MutexLock lock(mutex_);
  waiting_.erase(number);
  return false;
}

void ControlCalls::Deliver() {
  for (auto& [number, answer] : queue_.TakeAnswers()) {
    Waiting waiting;
    {
      MutexLock lock(mutex_);
      const auto found = waiting_.find(number);
      if (found == waiting_.end()) continue;
      waiting = std::move(found->second);
      waiting_.erase(found);
    }
    if (answer.all != nullptr) {
      GpuList gpus = std::move(answer.gpus);
      const std::optional<Gpu::Memory> memory = answer.memory;
      answer = AnswerFrom(*answer.all, waiting.what, administrators_);
      answer.gpus = std::move(gpus);
      answer.memory = memory;
    }
    waiting.call->Answer(answer);
  }
  VgpuList list = queue_.published();
  if (list == told_) return;
  told_ = std::move(list);
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(mutex_);
    for (const auto& [number, watcher] : watchers_) watchers.push_back(watcher);
  }
  for (const std::shared_ptr<Watcher>& watcher : watchers) watcher->Tell(*told_);
}

bool ControlCalls::AddWatcher(const std::shared_ptr<Watcher>& watcher, const std::string& holder) {
  std::shared_ptr<Watcher> leaves;
  {
    MutexLock lock(mutex_);
    const HolderShares::Id number = ++last_number_;
    const std::optional<HolderShares::Id> goes =
        (IsAdministrator(holder) ? administrators_watching_ : watching_).Come(number, holder);
    if (goes == number) return false;
    if (goes) {
      const auto found = watchers_.find(*goes);
      leaves = std::move(found->second);
      watchers_.erase(found);
    }
    watchers_[number] = watcher;
    queue_.Watch(true);
  }
  if (leaves != nullptr) leaves->MakeRoom();
  return true;
}

void ControlCalls::RemoveWatcher(const Watcher* watcher) {
  MutexLock lock(mutex_);
  const auto found =
      std::find_if(watchers_.begin(), watchers_.end(), [&](const auto& each) { return each.second.get() == watcher; });
  if (found == watchers_.end()) return;
  watching_.Leave(found->first);
  administrators_watching_.Leave(found->first);
  watchers_.erase(found);
  if (watchers_.empty()) queue_.Watch(false);
}

}  // namespace tessera
