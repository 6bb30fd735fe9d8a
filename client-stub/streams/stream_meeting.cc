#include "client-stub/streams/stream_meeting.h"

#include <memory>
#include <utility>

#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/meeting.h"
#include "client-stub/streams/stream_visit.h"

namespace tessera {
namespace {

// One side's part in a meeting, owned by its visit: a visit that is dropped has not been made.
class Part {
 public:
  Part(std::shared_ptr<Meeting> meeting, int side) : meeting_(std::move(meeting)), side_(side) {}
  ~Part() { meeting_->Cancel(); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  void Arrive(const GoOn& go_on) const {
    // The part stays until the meeting is over: the visit itself ends at once.
    meeting_->Arrive(side_, [go_on, self = kept_.lock()] { go_on(); });
  }
  static std::shared_ptr<Part> Make(const std::shared_ptr<Meeting>& meeting, int side) {
    auto part = std::make_shared<Part>(meeting, side);
    part->kept_ = part;
    return part;
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int side_;
  std::weak_ptr<const Part> kept_;
};

}  // namespace

CUresult MeetStreams(BasicCall& first, HandleId first_stream, BasicCall& second, HandleId second_stream,
                     std::function<void()> action, const Range& written) {
  MeetingTable::Process().Watch(first.session());
  MeetingTable::Process().Watch(second.session());
  const auto meeting = std::make_shared<Meeting>(first.session(), second.session(), first.thread().number, std::move(action));
  MeetingTable::Process().Add(meeting);
  // Before anything waits for it: a session that is gone by now has cancelled what there was.
  for (Session* session : {&first.session(), &second.session()}) {
    if (session->gone()) return first.Fail(session->GoneResult());
  }
  const auto visit = [&meeting](int side) -> Visit {
    return [part = Part::Make(meeting, side)](const GoOn& go_on) { part->Arrive(go_on); };
  };
  CUresult result = VisitStream(first, first_stream, visit(0), written);
  if (result == CUDA_SUCCESS) result = VisitStream(second, second_stream, visit(1));
  if (result != CUDA_SUCCESS) meeting->Cancel();
  return result;
}

}  // namespace tessera
