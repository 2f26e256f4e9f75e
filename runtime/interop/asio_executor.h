#pragma once
// Runs actors in a host's io_context: their turns are handlers among the host's own.
//
//   boost::asio::io_context loop;
//   ExecutorPtr executor = adopt_io_context(system, loop);
//   auto session = system.spawn<Session>({.placement = Placement::on(executor)}, std::move(socket));
//   loop.run();
//
// The host may run the loop on one thread or several; turns of actors on this executor never overlap. The executor is
// not outstanding work for Asio: run() returns when there is nothing else to do, and actors continue when the
// loop is run again. A pending timer of an actor is outstanding work.
//
// The io_context must outlive System::stop(). If its run() has returned, the stopping thread runs the
// remaining turns. A loop that was never run is assumed to be run soon: call its stop() before
// System::stop().
//
// Threading: any thread.

#include <boost/asio/io_context.hpp>

#include "runtime/executor.h"

namespace reprise::runtime {

class System;

ExecutorPtr adopt_io_context(System& system, boost::asio::io_context& loop);

}  // namespace reprise::runtime
