// Gives a room access to what it keeps for the whole process.
//
// One object has all of it (root/process_object.h). The first call of the process makes it. It is never destroyed, since exit
// handlers and destructors of other libraries call in after main. It lies above all rooms, so a room finds its part by the part's
// type, and offers it by a function of its own:
//
//   inline StreamTable& Streams() { return PartOfProcess<StreamTable>::Get(); }
//
// Any thread. A child after fork has its parent's parts, and their locks may be taken for ever. So its calls end before they
// touch a part (Client::forked()).
#pragma once

#include <atomic>
#include <utility>

namespace tessera {

// Makes the object with all its parts, once (root/process_object.cc).
void MakeProcessObject();

// A member of the object. It can be found as soon as it is made, so a part's constructor may use the parts before it.
template <typename T>
class PartOfProcess {
 public:
  template <typename... Arguments>
  explicit PartOfProcess(Arguments&&... arguments) : part_(std::forward<Arguments>(arguments)...) {
    made_.store(&part_, std::memory_order_release);
  }
  PartOfProcess(const PartOfProcess&) = delete;
  PartOfProcess& operator=(const PartOfProcess&) = delete;

  // Costs one load, without the guard of a static variable.
  static T& Get() {
    T* const part = IfMade();
    return part != nullptr ? *part : Make();
  }
  // Null before the first call. Async-signal-safe.
  static T* IfMade() { return made_.load(std::memory_order_acquire); }

 private:
  [[gnu::cold, gnu::noinline]] static T& Make() {
    MakeProcessObject();
    return *IfMade();
  }

  T part_;
  static inline constinit std::atomic<T*> made_{nullptr};
};

}  // namespace tessera
