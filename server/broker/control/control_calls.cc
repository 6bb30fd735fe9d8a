#include "server/broker/control/control_calls.h"

#include <grpcpp/support/async_unary_call.h>

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
  static void Await(ControlCalls& calls, Method method) {
    const auto call = std::make_shared<UnaryCall>(calls, method);
    call->self_ = call;
    (calls.service().*method)(&call->context_, &call->request_, &call->writer_, calls.completions(), calls.completions(),
                              call->tag());
  }

  UnaryCall(ControlCalls& calls, Method method) : calls_(calls), method_(method), writer_(&context_) {}

  void Happened(bool ok) override {
    if (began_ || !ok) {
      self_.reset();
      return;
    }
    began_ = true;
    Await(calls_, method_);
    if (calls_.Send(this->shared_from_this(), CallOf(request_, calls_.HolderOf(context_)))) return;
    Answer({CallCode::kUnavailable, "too many calls wait at this server: try again", {}});
  }
  void Answer(const VgpuAnswer& answer) override {
    Response response;
    FillIn(answer, &response);
    writer_.Finish(response, GrpcStatusOf(answer), tag());
  }

 private:
  // What TendOne() gets back.
  GrpcEvent* tag() { return this; }

  ControlCalls& calls_;
  const Method method_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
  std::shared_ptr<UnaryCall> self_;
  bool began_ = false;
};

}  // namespace

void ControlCalls::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&service_);
  completions_ = builder.AddCompletionQueue();
}

void ControlCalls::Begin() {
  using control::v1::Vgpu;
  UnaryCall<control::v1::CreateRequest, Vgpu>::Await(*this, &Service::RequestCreate);
  UnaryCall<control::v1::UpdateRequest, Vgpu>::Await(*this, &Service::RequestUpdate);
  UnaryCall<control::v1::DeleteRequest, Vgpu>::Await(*this, &Service::RequestDelete);
  UnaryCall<control::v1::ImportRequest, control::v1::VgpuList>::Await(*this, &Service::RequestImport);
  UnaryCall<control::v1::GetRequest, Vgpu>::Await(*this, &Service::RequestGet);
  UnaryCall<control::v1::ListRequest, control::v1::VgpuList>::Await(*this, &Service::RequestList);
}

void ControlCalls::TendOne() {
  void* event = nullptr;
  bool ok = false;
  if (completions_->Next(&event, &ok)) static_cast<GrpcEvent*>(event)->Happened(ok);
}

bool ControlCalls::Send(const std::shared_ptr<WaitingCall>& call, VgpuCall what) {
  if (what.holder.empty()) what.holder = kAnonymousHolder;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
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
    watchers = watchers_;
  }
  for (const std::shared_ptr<Watcher>& watcher : watchers) watcher->Tell(*told_);
}

bool ControlCalls::AddWatcher(const std::shared_ptr<Watcher>& watcher) {
  MutexLock lock(mutex_);
  if (watchers_.size() == kWatchersMax) return false;
  watchers_.push_back(watcher);
  queue_.Watch(true);
  return true;
}

void ControlCalls::RemoveWatcher(const Watcher* watcher) {
  MutexLock lock(mutex_);
  std::erase_if(watchers_, [&](const std::shared_ptr<Watcher>& each) { return each.get() == watcher; });
  if (watchers_.empty()) queue_.Watch(false);
}

}  // namespace tessera
