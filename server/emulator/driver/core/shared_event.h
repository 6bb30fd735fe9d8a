// The state of an interprocess event: a few words in memory that several processes map. A record has a number, counted over
// all processes; it is done when its work is, or when the process that made it has ended.
// Any thread of any process. Source: CUDA driver API, "cuIpcGetEventHandle".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/emulator/driver/core/command.h"
#include "server/emulator/driver/device/named_memory.h"

namespace tessera::emulator {

class SharedEvent {
 public:
  // A new event. Null when the system has no memory.
  static std::shared_ptr<SharedEvent> Create();
  // The event that another process (or this one) told the handle of. Null when there is none any more.
  static std::shared_ptr<SharedEvent> Open(const CUipcEventHandle& handle);
  ~SharedEvent();

  void Tell(CUipcEventHandle* handle) const;

  // A new record; its number. EndRecord once its work is done.
  uint64_t BeginRecord();
  void EndRecord(uint64_t number);
  // The newest record; 0 when there is none, which is done.
  uint64_t newest() const;
  bool Done(uint64_t number) const;
  // Waits until it is done or `cancel` is set.
  void Wait(uint64_t number, const std::atomic<bool>* cancel) const;

 private:
  struct State;
  SharedEvent(std::shared_ptr<NamedMemory> memory, State* state) : memory_(std::move(memory)), state_(state) {}

  const std::shared_ptr<NamedMemory> memory_;
  State* const state_;
};

// Ends a record when its turn in a stream comes.
class SharedRecordCommand : public Command {
 public:
  SharedRecordCommand(std::shared_ptr<SharedEvent> event, uint64_t number) : event_(std::move(event)), number_(number) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUresult Execute(Context&) override {
    event_->EndRecord(number_);
    return CUDA_SUCCESS;
  }
  void Skip(Context& context) override { Execute(context); }

 private:
  const std::shared_ptr<SharedEvent> event_;
  const uint64_t number_;
};

// Holds a stream until a record is done.
class SharedWaitCommand : public Command {
 public:
  SharedWaitCommand(std::shared_ptr<SharedEvent> event, uint64_t number) : event_(std::move(event)), number_(number) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUresult Execute(Context& context) override;

 private:
  const std::shared_ptr<SharedEvent> event_;
  const uint64_t number_;
};

}  // namespace tessera::emulator
