"""Tensors on the GPU that two processes share, both ways, and an event between them (torch.multiprocessing, CUDA IPC)."""
import torch
import torch.multiprocessing as mp


def child(queue, answers, event_handle):
    event = torch.cuda.Event.from_ipc_handle(0, event_handle)
    torch.cuda.current_stream().wait_event(event)
    tensors = [queue.get() for _ in range(3)]
    for tensor in tensors:
        tensor.mul_(2)
    mine = torch.arange(1000, device="cuda", dtype=torch.float32)
    torch.cuda.synchronize()
    answers.put([float(t.sum()) for t in tensors])
    answers.put(mine)
    assert queue.get() == "done"


def main():
    mp.set_start_method("spawn")
    queue, answers = mp.Queue(), mp.Queue()
    event = torch.cuda.Event(interprocess=True)
    big = torch.ones(1 << 24, device="cuda")
    views = [big, big[1000:2000], torch.full((7,), 3.0, device="cuda")]
    torch.cuda._sleep(50_000_000)
    big.add_(1)
    event.record()
    process = mp.Process(target=child, args=(queue, answers, event.ipc_handle()))
    process.start()
    for view in views:
        queue.put(view)
    print(answers.get())
    theirs = answers.get()
    print(float(theirs.sum()), theirs.device)
    print(float(big.sum()), float(views[2].sum()))
    del theirs
    queue.put("done")
    process.join()
    print("exit code", process.exitcode)


if __name__ == "__main__":
    main()
