#pragma once
// Connections that wait for a request, or for their client to take the last answer and close; the one that
// waits longest first. They can be closed when others want to come in.
//
// An entry leaves the list when it is destroyed, at the latest. No memory is taken for a place in it.
//
// Threading: the server's loop alone.

#include <boost/intrusive/list.hpp>

namespace reprise::protocol {

/// Something that waits and can be told to make room.
class Waiting
    : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  /// Must leave the list at once.
  virtual void give_way() = 0;

 protected:
  ~Waiting() = default;
};

class WaitingList {
 public:
  /// As the one that waits shortest, also where it waited before.
  void add(Waiting& waiting) {
    remove(waiting);
    list_.push_back(waiting);
  }
  /// Does nothing where it is in no list.
  static void remove(Waiting& waiting) {
    if (waiting.is_linked()) waiting.unlink();
  }
  /// Has the one that waits longest make room; false where nobody waits.
  bool make_room() {
    if (list_.empty()) return false;
    list_.front().give_way();
    return true;
  }

 private:
  boost::intrusive::list<Waiting, boost::intrusive::constant_time_size<false>> list_;
};

}  // namespace reprise::protocol
