// Event record and wait as nodes of graphs.
#pragma once

#include "server/emulator/driver/core/event.h"

namespace tessera::emulator {

class EventRecordCommand : public Command {
 public:
  explicit EventRecordCommand(EventPtr event, CUevent handle) : event_(std::move(event)), handle_(handle) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUresult Execute(Context& context) override;
  CommandPtr ForLaunch(std::vector<FencePtr>* pending) override;
  CUevent handle() const { return handle_; }

 private:
  const EventPtr event_;
  const CUevent handle_;
};

class EventWaitCommand : public Command {
 public:
  explicit EventWaitCommand(EventPtr event, CUevent handle) : event_(std::move(event)), handle_(handle) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUresult Execute(Context& context) override;
  CommandPtr ForLaunch(std::vector<FencePtr>* pending) override;
  CUevent handle() const { return handle_; }

 private:
  const EventPtr event_;
  const CUevent handle_;
};

}  // namespace tessera::emulator
