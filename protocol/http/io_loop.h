#pragma once
// An io_context with the one thread that runs it: where a server's sockets and connections live.
//
// Must be made before the actor system that uses it, and outlive its stop.
//
// Threading: any thread.

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

namespace reprise::protocol {

class IoLoop {
 public:
  IoLoop();
  /// Stops the loop and joins its thread.
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  boost::asio::io_context& context() { return context_; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace reprise::protocol
