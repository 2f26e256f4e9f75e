#pragma once
// A host's io_context as a home for actors: their turns run as handlers of it, among the host's own.
//
//   boost::asio::io_context loop;
//   HomePtr home = adopt_io_context(system, loop);
//   auto session = system.spawn<Session>({.placement = Placement::on(home)}, std::move(socket));
//   loop.run();
//
// The host runs the loop, with one thread or several; turns of all actors on this home never overlap in any
// case. The home is no work in Asio's sense: a loop with nothing else to do returns from run(), and goes on
// when it is run again. A pending timer of an actor is work.
//
// The io_context must outlive System::stop(). A loop whose run() has returned does not hinder it: what is
// left to do then happens on the stopping thread. One that was never run counts as about to be run: call its
// stop() first.
//
// Threading: any thread.

#include <boost/asio/io_context.hpp>

#include "runtime/home.h"

namespace reprise::runtime {

class System;

HomePtr adopt_io_context(System& system, boost::asio::io_context& loop);

}  // namespace reprise::runtime
