#pragma once
// The connections that can be closed when others want to come in: those that wait for a request, and those whose request
// is still being sent.
//
// An entry leaves its list when it is destroyed, at the latest.
//
// Threading: the server's loop alone.

#include <boost/asio/ip/address.hpp>
#include <boost/intrusive/list.hpp>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/ticks.h"

namespace reprise::protocol {

/// A connection that waits for a request, or for its client to take the last answer and close. It can be told to make room.
class Waiting
    : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  /// Must leave the list at once.
  virtual void give_way() = 0;

 protected:
  ~Waiting() = default;
};

/// Those that wait, the one that waits longest first. No memory is taken for a place in it.
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

/// An IPv4 address, or the first 64 bits of an IPv6 address: what one sender has at least.
struct SenderNetwork {
  std::uint64_t bits = 0;
  bool is_v6 = false;

  auto operator<=>(const SenderNetwork&) const = default;
};
/// An IPv4 address that is written as IPv6 counts as IPv4.
SenderNetwork network_of(const boost::asio::ip::address& address);

/// Connections whose request is still being sent, its head or its body, by the network that sends it. When all places are
/// taken, the network with most of them gives one up, the one whose request has come most slowly: so one address that sends
/// many requests and ends none keeps nobody else out.
class SenderList {
 public:
  /// One request that is being sent.
  class Entry
      : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>> {
   public:
    /// Must leave the list at once, and close its connection; nothing more is read of the request.
    virtual void stop_sending() = 0;

   protected:
    Entry() = default;
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class SenderList;
    SenderList* list_ = nullptr;  // null: in none
    SenderNetwork network_{};
    runtime::TimePoint began_{};
    std::size_t bytes_ = 0;
  };

  SenderList() = default;
  ~SenderList();
  SenderList(const SenderList&) = delete;
  SenderList& operator=(const SenderList&) = delete;

  /// Does nothing where it is in the list already.
  void add(Entry& entry, const SenderNetwork& network, runtime::TimePoint now);
  /// As much of its request's body has come; at least as much as before. Does nothing where it is in no list.
  static void note(Entry& entry, std::size_t bytes);
  /// Does nothing where it is in no list.
  static void remove(Entry& entry);

  /// Stops the slowest request of the network with the most; false: that has fewer than `at_least`.
  bool make_room(std::size_t at_least, runtime::TimePoint now);

  std::size_t size() const { return size_; }
  std::size_t size_of(const SenderNetwork& network) const;
  /// Of all bodies that the network has not sent to their end.
  std::size_t bytes_of(const SenderNetwork& network) const;

 private:
  struct Sender {
    boost::intrusive::list<Entry> entries;
    std::size_t bytes = 0;
  };

  std::map<SenderNetwork, Sender> senders_;
  std::size_t size_ = 0;
};

}  // namespace reprise::protocol
