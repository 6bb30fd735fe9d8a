"""In the guest: programs reach a server through an agent and a gateway whose link is RDMA. Prints what the log says of the links.

usage: product_over_rdma.py BUILD_DIRECTORY ADDRESS
"""

import os
import subprocess
import sys

ADDRESS = sys.argv.pop(2)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))
from product import TESSERA, Agent, Gateway, Server, environment, program, status_of, uids_of, wait_for  # noqa: E402

server = Server()
gateway = Gateway(server.path, "--insecure", "--hello-timeout", "60", "--resume-grace", "2", listen=f"ucx://{ADDRESS}:0")
assert gateway.url, gateway.words()
agent = Agent(gateway.url, "--insecure")
for part, user in ((gateway, 65523), (agent, 65524)):  # in their sandboxes
    wait_for(lambda: status_of(part.carrier())["Seccomp"] == "2", 60, "a process in its sandbox")
    assert uids_of(part.carrier()) == {user}, part.words()


def run(*words):
    done = subprocess.run([TESSERA, "run", "--quiet", "--server", agent.url, "--", *words], capture_output=True, text=True,
                          timeout=90, env=environment())
    assert done.returncode == 0, (words, done, agent.words(), gateway.words())
    return done.stdout


assert run(program("count")) == "1\n"
assert run(program("load")) == "ok\n"

# A gateway that is gone from one moment to the next is noticed, by the card's silence or the connection manager's word.
client = subprocess.Popen([TESSERA, "run", "--quiet", "--server", agent.url, "--", program("spin")], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=environment())
assert client.stdout.readline() == "spinning\n"
gateway.process.kill()
out, err = client.communicate(timeout=30)
assert out.startswith("ended with "), (out, err)

print(agent.words(), gateway.words(), flush=True)
wait_for(lambda: not server.workers(), 20, "the end of all workers")
assert agent.stop() == 0
assert server.stop() == 0
print("the product works over RDMA", flush=True)
