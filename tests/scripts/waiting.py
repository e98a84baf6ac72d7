"""Processes that wait in many ways, without RPC. Each prints a line just before. Knows nothing of faults."""

import ctypes
import multiprocessing
import os
import signal
import threading


def until_told():
    threading.Event().wait()


def with_a_thread():
    threading.Thread(target=until_told, daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    os.write(1, b"waits\n")
    lock.acquire()


def with_the_gil():
    os.write(1, b"waits\n")
    while True:
        ctypes.PyDLL(None).sleep(1000)  # a signal ends it


def stopped():
    os.write(1, b"waits\n")
    while True:
        os.kill(os.getpid(), signal.SIGSTOP)


def without_a_way_to_ask():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.write(1, b"waits\n")
    until_told()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    ways = (with_a_thread, with_the_gil, stopped, without_a_way_to_ask)
    players = [context.Process(target=way) for way in ways]
    for player in players:
        player.start()
    for player in players:
        player.join()
