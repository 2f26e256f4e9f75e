#pragma once
// Lists of the connections that the server may close for newcomers: idle connections, and connections whose
// request is still arriving.
//
// Threading: the server's loop only.

#include <boost/asio/ip/address.hpp>
#include <boost/intrusive/list.hpp>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/detail/ticks.h"

namespace reprise::protocol {

/// An idle connection: no request in progress.
class IdleConnection
    : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  /// Closes the connection for a newcomer. Must leave the list before returning.
  virtual void close_for_newcomer() = 0;

 protected:
  ~IdleConnection() = default;
};

class WaitingList {
 public:
  /// Makes `waiting` the most recently idle connection, even if it is in the list already.
  void add(IdleConnection& waiting) {
    remove(waiting);
    list_.push_back(waiting);
  }
  /// Does nothing if the connection is in no list.
  static void remove(IdleConnection& waiting) {
    if (waiting.is_linked()) waiting.unlink();
  }
  /// Closes the connection that has been idle longest; returns false if the list is empty.
  bool close_one() {
    if (list_.empty()) return false;
    list_.front().close_for_newcomer();
    return true;
  }

 private:
  boost::intrusive::list<IdleConnection, boost::intrusive::constant_time_size<false>> list_;
};

/// A client's network: its IPv4 address (also if mapped to IPv6), or the first 64 bits of its IPv6 address.
struct SenderNetwork {
  std::uint64_t bits = 0;
  bool is_v6 = false;

  auto operator<=>(const SenderNetwork&) const = default;
};
SenderNetwork network_of(const boost::asio::ip::address& address);

/// Connections whose request head or body is still arriving, grouped by client network. When all connections
/// are in use, close_one() stops the slowest request of the network with the most of them, so an address that
/// starts many requests and finishes none cannot lock out others.
class SenderList {
 public:
  /// A request that is still arriving. Leaves the list when it is destroyed.
  class Entry
      : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>> {
   public:
    /// Stops reading the request and closes its connection. Must leave the list before returning.
    virtual void stop_sending() = 0;

   protected:
    Entry() = default;
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class SenderList;
    SenderList* list_ = nullptr;  // null: in no list
    SenderNetwork network_{};
    runtime::TimePoint began_{};
    std::size_t bytes_ = 0;
  };

  SenderList() = default;
  ~SenderList();
  SenderList(const SenderList&) = delete;
  SenderList& operator=(const SenderList&) = delete;

  /// Does nothing if the entry is already in the list.
  void add(Entry& entry, const SenderNetwork& network, runtime::TimePoint now);
  /// Sets the received bytes of the body; must not decrease. Does nothing if the entry is in no list.
  static void note(Entry& entry, std::size_t bytes);
  /// Does nothing if the entry is in no list.
  static void remove(Entry& entry);

  /// Stops the slowest request of the network with the most entries. Returns false if that network has fewer
  /// than `at_least`.
  bool close_one(std::size_t at_least, runtime::TimePoint now);

  std::size_t size() const { return size_; }
  std::size_t size_of(const SenderNetwork& network) const;
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
